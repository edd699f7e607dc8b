/**
 * Tests that requests which are not valid HTTP or JSON get an error of the standard shape, whichever layer rejects them (SPEC
 * §7).
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { gzipSync } from 'node:zlib'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { type Answer, job, type LogLine, type Parley } from '../parley.ts'
import { beforeTests } from '../support/on-first-use.ts'
import { BATCHES, type Caller, ME, MESSAGES, says, startScene } from './caller.ts'
import { completed, enqueued, granted, invalid, refused } from './expect.ts'
import { openLine, readAnswer, talk } from './raw-http.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

const headOf = (key: string) =>
  `POST ${MESSAGES} HTTP/1.1\r\nhost: a\r\nx-api-key: ${key}\r\ncontent-type: application/json\r\n`

onAnyStore(() => {
  let parley: Parley
  let caller: Caller
  let key: string
  beforeTests(async (t) => {
    ;({ parley, caller } = await startScene(t))
    key = caller.key
  })

  function post(path: string, body: RequestInit['body'], headers: Record<string, string> = JSON_TYPE) {
    return parley.request(path, {
      method: 'POST',
      headers: { ...headers, 'x-api-key': key },
      body: body ?? null,
    })
  }

  function notJson(answer: Answer, details: string | RegExp): void {
    const refusal = refused(answer, 400)
    assert.equal(refusal.message, 'The body is not valid JSON.')
    if (typeof details === 'string') assert.equal(refusal.details, details)
    else assert.match(refusal.details ?? '', details)
  }

  function lineOf(answer: Answer) {
    const id = answer.headers.get('x-request-id')
    return parley.log.find(({ message, request_id }) => message === 'request completed' && request_id === id)
  }

  test('7 404 for an unknown route names method and path, never the query', async () => {
    for (const path of '/ /api /api/v1/ /api/v2/messages /api/v1/message /API/V1/MESSAGES //'.split(' ')) {
      const { message, details } = refused(await parley.get(`${path}?token=secret`), 404)
      assert.equal(message, 'Not found.')
      assert.equal(details, `There is no GET ${path}; see /docs for the routes.`)
    }
    const { details } = refused(await parley.get(`/${'x'.repeat(5000)}`), 404)
    assert.ok((details ?? '').length < 200)
  })

  test('7 405 with Allow for a method that a known path does not have, before key and body', async () => {
    const oneJob = (await parley.request(`${MESSAGES}/x`, { method: 'PUT' })).headers.get('allow') ?? ''
    assert.ok(oneJob.split(', ').includes('GET'))
    for (const [method, path, allow] of [
      ['PUT', `${MESSAGES}/x`, oneJob],
      ['PATCH', `${MESSAGES}/${randomUUID().toUpperCase()}?wait=1`, oneJob],
      ['PROPFIND', '/api/v1/me', 'GET, HEAD, OPTIONS'],
      ['POST', '/healthz', 'GET, HEAD, OPTIONS'],
      ['POST', '/docs/', 'GET, HEAD, OPTIONS'],
      ['DELETE', '/openapi.json', 'GET, HEAD, OPTIONS'],
      ['GET', '/admin/api/jobs/x/cancel', 'POST, OPTIONS'],
      ['PUT', '/admin/api/accounts/x', 'DELETE, GET, HEAD, OPTIONS'],
      ['HEAD', '/admin/api/events', 'GET, OPTIONS'],
      ['PUT', '/dashboard/jobs/x', 'GET, HEAD, OPTIONS'],
    ] as const) {
      const answer = await parley.request(path, { method, ...(!/HEAD|GET/.test(method) && { body: '{' }) })
      const about = `${method} ${path}`
      assert.equal(answer.headers.get('allow'), allow, about)
      if (method === 'HEAD') assert.equal(answer.status, 405)
      else {
        refused(answer, 405, {
          message: 'Method not allowed.',
          details: `${path.split('?', 1)[0]} does not support ${method}; it supports ${allow}.`,
        })
      }
      assert.equal(lineOf(answer)?.status, 405, about)
    }
    // Two routes have this path, so the header must list the methods of both.
    const batches = (await parley.request(BATCHES, { method: 'PUT' })).headers.get('allow') ?? ''
    for (const method of ['GET', 'POST']) assert.ok(batches.split(', ').includes(method), batches)
    // These paths look like those of a job or a page, but no route has them.
    const long = 'x'.repeat(8193)
    for (const path of [`${MESSAGES}/`, `${MESSAGES}/x/y`, '/dashboards', `${MESSAGES}/${long}`]) {
      refused(await parley.request(path, { method: 'PUT' }), 404)
    }
  })

  test('7 OPTIONS lists the methods of a path, and HEAD answers as GET without the body', async () => {
    for (const path of [MESSAGES, '/healthz', '/admin/api/keys']) {
      const answer = await parley.request(path, { method: 'OPTIONS' })
      assert.deepEqual([answer.status, answer.text], [204, ''])
      assert.match(answer.headers.get('allow') ?? '', /^[A-Z]+(, [A-Z]+)*, OPTIONS$/)
    }
    refused(await parley.request('/api/v1/none', { method: 'OPTIONS' }), 404)
    for (const [path, headers, status] of [
      [ME, { 'x-api-key': key }, 200],
      [`${MESSAGES}/${randomUUID()}`, { 'x-api-key': key }, 404],
      [`${MESSAGES}/x`, {}, 401],
    ] as const) {
      const head = await parley.request(path, { method: 'HEAD', headers: { ...headers } })
      assert.deepEqual([head.status, head.text], [status, ''], path)
    }
  })

  test('7 404 for an address that cannot be decoded', async () => {
    for (const path of ['/%zz', '/%ff', '/api/v1/%', '/docs/%c3%28']) {
      const answer = await parley.get(path, key)
      refused(answer, 404, { details: /^There is no GET / })
      assert.equal(lineOf(answer)?.status, 404)
    }
    refused(await parley.get(`${MESSAGES}/%zz`, key), 404, { message: 'Job not found.' })
  })

  test('7 400 for a body that is no JSON says where', async () => {
    for (const path of [MESSAGES, BATCHES]) {
      for (const body of ['{"model": gpt-5}', '[1,]']) notJson(await post(path, body), /Unexpected token/)
      for (const body of ['{"a":1', 'NaN', '{} {}']) notJson(await post(path, body), /./)
    }
    const long = refused(await post(MESSAGES, `{"a": ${'secret '.repeat(1000)}}`), 400)
    assert.ok((long.details ?? '').length < 200)
  })

  test('7 400 for an empty body', async () => {
    for (const path of [MESSAGES, BATCHES]) {
      for (const body of ['', null]) notJson(await post(path, body), 'The body is empty.')
      notJson(await post(path, ' \n'), /./)
      refused(await parley.request(path, { method: 'POST', headers: { 'x-api-key': key } }), 400)
    }
  })

  test('7 400 for invalid UTF-8, wherever it is', async () => {
    for (const bytes of [[0xff], [0xc3, 0x28], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xc0, 0x80]]) {
      const [head = '', tail = ''] = JSON.stringify(says('#')).split('#')
      const broken = Buffer.concat([Buffer.from(head), Buffer.from(bytes), Buffer.from(tail)])
      notJson(await post(MESSAGES, broken), 'The body is not valid UTF-8.')
    }
  })

  test('7 400 for JSON nested 65 deep, while 64 is deep enough', async () => {
    const nested = (depth: number, open: string, close: string) => open.repeat(depth) + close.repeat(depth)
    const tooDeep = 'The body is nested more than 64 levels deep.'
    notJson(await post(MESSAGES, nested(65, '[', ']')), tooDeep)
    notJson(await post(MESSAGES, nested(65, '{"a":', '}').replace(':}', ':1}')), tooDeep)
    notJson(await post(MESSAGES, '['.repeat(100_000)), tooDeep)
    // The string ends with an escaped backslash, so the quotation mark after it ends the string.
    notJson(await post(MESSAGES, nested(65, '{"\\\\":', '}').replace(':}', ':1}')), tooDeep)
    invalid(await post(MESSAGES, nested(64, '[', ']')), 'the body must be an object')
    // Array, job, callback and payload are four levels of nesting, so 60 of the 64 are left.
    const payload = (depth: number) => {
      const callback = { callback_url: 'https://example.com', callback_payload: { a: 0 } }
      return JSON.stringify([job({ callback })]).replace('{"a":0}', `{"a":${nested(depth, '[', ']')}}`)
    }
    enqueued(await post(BATCHES, payload(60)), 1)
    notJson(await post(BATCHES, payload(61)), tooDeep)
    // Brackets inside strings are text and don't count as nesting.
    completed(await caller.ask('["'.repeat(99)))
  })

  test('7 413 for a body over the limit of its route, and not for one at the limit', async (t) => {
    const settings = { limits: { body_bytes: 1500, batch_body_bytes: 2500 } }
    const { parley: small, caller: own } = await startScene(t, { settings })
    const filled = (bytes: number, wrap: (text: string) => string) => {
      const body = (length: number) => wrap(JSON.stringify(says('x'.repeat(length))))
      return body(bytes - body(0).length)
    }
    for (const [path, bytes, wrap] of [
      [MESSAGES, 1500, (text: string) => text],
      [BATCHES, 2500, (text: string) => `[${text}]`],
    ] as const) {
      refused(await own.post(path, filled(bytes + 1, wrap)), 413, {
        message: 'The body is too large.',
        details: `This route accepts at most ${bytes} bytes.`,
      })
      refused(await own.post(path, 'x'.repeat(1_000_000)), 413)
      granted(await own.post(path, filled(bytes, wrap)), path === MESSAGES ? 200 : 202)
    }
    // A client that reads only after it has sent its whole body must still get the response, with or without a declared length.
    // The clock stands still here, so the server reads only the first megabytes of the rest.
    const head = `POST ${MESSAGES} HTTP/1.1\r\nhost: parley\r\nx-api-key: ${own.key}\r\ncontent-type: application/json\r\n`
    const [first, rest] = [1501, 500_000].map((length) => ' '.repeat(length))
    const chunk = (text = '') => `${text.length.toString(16)}\r\n${text}\r\n`
    for (const [before, after] of [
      [`content-length: 501501\r\n\r\n${first}`, rest],
      [`transfer-encoding: chunked\r\n\r\n${chunk(first)}`, chunk(rest) + chunk()],
    ]) {
      const line = openLine(small)
      line.send(head + before)
      assert.match(await line.until(/too large/), /^HTTP\/1.1 413 (?![\s\S]*connection: close)/i)
      line.send(`${after}GET /healthz HTTP/1.1\r\nhost: parley\r\n\r\n`)
      await line.until(/HTTP\/1.1 200 /)
      line.hangUp()
    }
  })

  function unsupported(answer: Answer, details: string): void {
    refused(answer, 415, { message: 'Unsupported media type.', details })
  }

  const BODY = JSON.stringify(job())

  test('4.1 Content-Type: 415 for every other', async () => {
    for (const type of 'text/plain application/x-www-form-urlencoded application/jsonp json ;;; a/b/c'.split(
      ' ',
    )) {
      const answer = await post(MESSAGES, BODY, { 'content-type': type })
      unsupported(answer, 'Send the body with Content-Type: application/json.')
    }
    refused(await post(MESSAGES, Buffer.from(BODY), {}), 415)
    for (const type of [
      'application/json; charset=utf-8',
      'Application/JSON',
      'application/json;charset="UTF-8"',
    ]) {
      completed(await post(MESSAGES, BODY, { 'content-type': type }))
    }
  })

  test('4.1 Content-Encoding: 415, before the body is read', async () => {
    for (const encoding of ['gzip', 'br', 'deflate', 'zstd', 'identity, gzip', 'none', '']) {
      const answer = await post(MESSAGES, gzipSync(BODY), { ...JSON_TYPE, 'content-encoding': encoding })
      unsupported(answer, 'Send the body uncompressed, without Content-Encoding.')
    }
    completed(await post(MESSAGES, BODY, { ...JSON_TYPE, 'content-encoding': 'Identity' }))
    // The test never sends the body, because the headers are enough for the rejection.
    const head = (apiKey: string, length: number) =>
      `${headOf(apiKey)}connection: close\r\ncontent-encoding: gzip\r\ncontent-length: ${length}\r\n\r\n`
    refused(await talk(parley, head(key, 100)), 415)
    refused(await talk(parley, head('none', 0)), 401)
  })

  test('4.1 Content-Type with another charset than UTF-8: 415', async () => {
    for (const charset of ['iso-8859-1', 'utf-16', '"UTF-16LE"', 'utf-7', 'us-ascii', '', 'utf-8x']) {
      const type = { 'content-type': `application/json; charset=${charset}` }
      const answer = await post(MESSAGES, Buffer.from(BODY, 'latin1'), type)
      unsupported(answer, 'Send the body in UTF-8. Content-Type must not declare another charset.')
    }
    for (const parameters of ['profile=x', 'CHARSET=utf8', 'a=b; charset = "utf-8"']) {
      completed(await post(MESSAGES, BODY, { 'content-type': `application/json; ${parameters}` }))
    }
  })

  test('7 400 for what is not HTTP, and the connection is closed', async () => {
    for (const text of [
      'HELLO\r\n\r\n',
      'GET /healthz HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n',
      'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n',
      'BREW /coffee HTTP/1.1\r\nhost: a\r\n\r\n',
      '\u0016\u0003\u0001\u0002\u0000',
    ]) {
      const answer = await talk(parley, text)
      refused(answer, 400, { message: 'The request is not valid HTTP.' })
      assert.equal(answer.headers.get('connection'), 'close')
      assert.equal(lineOf(answer)?.status, 400)
    }
  })

  test('what is not HTTP gets the error of OpenAI below /v1', async () => {
    const answer = await talk(parley, 'POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n')
    assert.equal(answer.status, 400)
    assert.equal(answer.body.error.message, 'The request is not valid HTTP.')
  })

  test('7 400 for HTTP/1.1 without Host', async () => {
    invalid(await talk(parley, 'GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n'), 'Host: is required')
    const old = await talk(parley, 'GET /healthz HTTP/1.0\r\n\r\n')
    assert.equal(old.status, 200)
  })

  test('7 400 for two Host headers, whatever they say, on any path', async () => {
    for (const [first, path] of [
      ['host: a\r\nHost: b', '/healthz'],
      ['HOST: a\r\nhost: a', MESSAGES],
      ['host:\r\nhost: a', '/none'],
      ['host: a\r\nx-api-key: x\r\nhOSt: a', '/admin/api/keys'],
    ]) {
      for (const version of ['1.1', '1.0']) {
        const request = `GET ${path} HTTP/${version}\r\n${first}\r\nconnection: close\r\n\r\n`
        invalid(await talk(parley, request), 'Host: must be given exactly once')
      }
    }
    const one = 'GET /healthz HTTP/1.1\r\nhost: a\r\nx-host: b\r\nhos: c\r\nconnection: close\r\n\r\n'
    assert.equal((await talk(parley, one)).status, 200)
  })

  test('7 431 for more than 200 headers, and for headers that are too large', async () => {
    const get = (headers: string) =>
      talk(parley, `GET /healthz HTTP/1.1\r\n${headers}host: a\r\nconnection: close\r\n\r\n`)
    const many = (count: number) => Array.from({ length: count - 2 }, (_, at) => `x-${at}: a\r\n`).join('')
    assert.equal((await get(many(200))).status, 200)
    for (const headers of [many(201), many(900), `x: ${'x'.repeat(20_000)}\r\n`]) {
      refused(await get(headers), 431, { message: 'The request headers are too large.' })
    }
  })

  test('7 an unknown expectation is ignored', async () => {
    const request = 'GET /nothing HTTP/1.1\r\nhost: a\r\nexpect: more\r\nconnection: close\r\n\r\n'
    refused(await talk(parley, request), 404)
  })

  test('7 a caller who hangs up in the middle of the body is no error of the server', async () => {
    const line = openLine(parley)
    line.send(`${headOf(key)}x-request-id: hung-up\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n`)
    await line.until(/100 Continue/)
    line.send('{"model":')
    line.hangUp()
    await line.closed
    // When this later request is answered, the server has noticed that the earlier connection is closed.
    completed(await caller.create({ message_cache_ttl: 180 }))
    const isWrong = ({ level, request_id }: LogLine) =>
      level === 'error' || (level !== 'info' && request_id === 'hung-up')
    assert.deepEqual(parley.log.filter(isWrong), [])
  })

  test('7 408 for a request that does not arrive in time, while a single create may wait for longer', async (t) => {
    const settings = { limits: { header_timeout_seconds: 1, request_timeout_seconds: 1 } }
    const options = { settings, script: () => reply.stall() }
    const { parley: strict, caller: own, models } = await startScene(t, options)
    const waiting = own.create()
    await models.received(1)
    const slowHeaders = talk(strict, 'GET /healthz HTTP/1.1\r\nhost: a\r\nx-slow: ')
    const slowBody = talk(strict, `${headOf(own.key)}content-length: 100\r\n\r\n{"model":`)
    for (const answer of await Promise.all([slowHeaders, slowBody])) {
      refused(answer, 408, { message: 'The request did not arrive in time.' })
    }
    models.release()
    completed(await waiting)
  })

  test('7 two requests on one connection are answered in their order', async () => {
    const request = (path: string, end: string) =>
      `GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: ${end}\r\n\r\n`
    const line = openLine(parley)
    line.send(request('/first', 'keep-alive') + request('/second', 'close'))
    const came = await line.closed
    assert.ok(came.indexOf('/first;') > 0 && came.indexOf('/first;') < came.indexOf('/second;'))
    refused(readAnswer(came), 404)
  })
})
