/** Tests the OpenAPI documents and the page that shows them. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test, { after } from 'node:test'
import { Check } from 'typebox/schema'
import { StoreUnavailable } from '../../src/store/store.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { CALLERS, closed, documentAt, OPERATORS } from './openapi/document.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
/** The error statuses that every route documents. */
const ANY_REQUEST = [400, 405, 408, 431, 503]

onAnyStore(async () => {
  const { parley, models, clock } = await startStage(
    { after },
    {
      settings: {
        limits: { body_bytes: 2000, batch_body_bytes: 2000 },
        tiers: { user_go: { reads_per_minute: 1 } },
      },
    },
  )
  const key = await parley.key()
  const callers = await documentAt(parley, CALLERS)
  const operators = await documentAt(parley, OPERATORS)

  interface Operation {
    readonly operationId: string
    readonly responses: Record<
      string,
      { description: string; content: Record<string, { schema: Answer['body'] }> }
    >
    readonly summary?: string
    readonly security: readonly object[]
  }

  function operation(method: string, path: string): Operation {
    return (callers.paths[path] ?? operators.paths[path])[method]
  }

  /**
   * Asserts that the response has this status, that its route documents the status, and that the body has the documented shape.
   */
  function documented(method: string, path: string, status: number, given: Answer): void {
    assert.equal(given.status, status, given.text)
    const response = operation(method, path).responses[String(status)]
    assert.ok(response, `${method} ${path} does not document ${status}`)
    const type = (given.headers.get('content-type') ?? '').split(';', 1)[0] ?? ''
    const content = response.content[type]
    assert.ok(content, `${method} ${path} does not document ${type} for ${status}`)
    const value = type === 'application/json' ? given.body : given.text
    assert.ok(Check(content.schema, value), `${method} ${path} ${status}: ${given.text}`)
  }

  test('both are OpenAPI 3.1 documents, each with the key that opens its routes', async () => {
    for (const [path, document, title] of [
      [CALLERS, callers, 'Parley'],
      [OPERATORS, operators, 'Parley: admin API'],
    ] as const) {
      const answer = await parley.get(path)
      assert.equal(answer.status, 200)
      assert.match(answer.headers.get('content-type') ?? '', /^application\/json/)
      assert.match(document.openapi, /^3\.1\./)
      assert.equal(document.info.title, title)
      assert.deepEqual(document.servers, [{ url: '/' }])
    }
    const { apiKey, ...noOther } = callers.components.securitySchemes
    assert.deepEqual([apiKey.type, apiKey.in, apiKey.name], ['apiKey', 'header', 'x-api-key'])
    assert.deepEqual(noOther, {})
    const { adminToken, ...noKey } = operators.components.securitySchemes
    assert.deepEqual([adminToken.type, adminToken.scheme], ['http', 'bearer'])
    assert.deepEqual(noKey, {})
  })

  /** Returns each operation's ID, its authentication, and its statuses except those that every route has. */
  function contentsOf(document: Answer['body']) {
    const names: string[] = []
    const found = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId, responses, security, summary }]) => {
        assert.ok(summary && !summary.endsWith('.'), path)
        names.push(operationId)
        const statuses = Object.keys(responses).map(Number)
        for (const status of ANY_REQUEST) assert.ok(statuses.includes(status), `${method} ${path} ${status}`)
        const [wants = null] = Object.keys(security[0] ?? {})
        const others = statuses.filter((status) => !ANY_REQUEST.includes(status))
        return [`${method} ${path}`, [operationId, wants, others.toSorted((a, b) => a - b).join(' ')]]
      }),
    )
    assert.equal(new Set(names).size, names.length)
    return Object.fromEntries(found)
  }

  test('/openapi.json documents every route of callers, its key and its statuses', () => {
    assert.deepEqual(contentsOf(callers), {
      'post /api/v1/messages': ['createMessage', 'apiKey', '200 202 401 403 413 415 429 500'],
      'get /api/v1/messages': ['listMessages', 'apiKey', '200 401 429 500'],
      'post /api/v1/messages/batches': ['createBatch', 'apiKey', '202 401 403 413 415 429 500'],
      'get /api/v1/messages/{jobId}': ['getMessage', 'apiKey', '200 401 404 429 500'],
      'post /api/v1/messages/{jobId}/cancel': ['cancelMessage', 'apiKey', '200 401 404 409 413 415 429 500'],
      'delete /api/v1/messages/{jobId}': ['deleteMessage', 'apiKey', '200 401 404 409 413 415 429 500'],
      'get /api/v1/me': ['getAccount', 'apiKey', '200 401 429 500'],
    })
  })

  test('/admin/api/openapi.json documents every other route, its token and its statuses', () => {
    const read = (operationId: string, more = '') => [operationId, 'adminToken', `200 401 ${more}429 500`]
    const write = (operationId: string, more = '') => [
      operationId,
      'adminToken',
      `200 401 403 ${more}413 415 429 500`,
    ]
    assert.deepEqual(contentsOf(operators), {
      'get /admin/api/overview': read('getOverview'),
      'get /admin/api/events': read('streamEvents'),
      'get /admin/api/batches': read('listAllBatches'),
      'get /admin/api/batches/{batchId}': read('getAnyBatch', '404 '),
      'post /admin/api/batches/{batchId}/cancel': write('cancelAnyBatch', '404 409 '),
      'get /admin/api/batches/{batchId}/output': read('downloadBatchOutput', '403 404 '),
      'get /admin/api/batches/{batchId}/error': read('downloadBatchErrors', '403 404 '),
      'get /admin/api/jobs': read('listJobs'),
      'get /admin/api/jobs/{jobId}': read('getJob', '404 '),
      'get /admin/api/jobs/{jobId}/content': read('getJobContent', '403 404 '),
      'post /admin/api/jobs/{jobId}/cancel': write('cancelJob', '404 409 '),
      'post /admin/api/jobs/{jobId}/rerun': write('rerunJob', '404 409 '),
      'post /admin/api/jobs/rerun': write('rerunJobs'),
      'delete /admin/api/jobs/{jobId}': write('deleteJob', '404 409 '),
      'get /admin/api/callbacks': read('listCallbacks'),
      'get /admin/api/callbacks/{jobId}': read('getCallback', '404 '),
      'post /admin/api/callbacks/{jobId}/replay': write('replayCallback', '404 409 '),
      'post /admin/api/callbacks/replay-failed': write('replayFailedCallbacks'),
      'get /admin/api/accounts': read('listAccounts'),
      'get /admin/api/accounts/{name}': read('getAccount', '404 '),
      'post /admin/api/accounts/{name}/tier': write('setAccountTier', '404 '),
      'post /admin/api/accounts/{name}/secret': write('getAccountSecret', '404 '),
      'post /admin/api/accounts/{name}/webhook': write('setAccountWebhook', '404 '),
      'post /admin/api/accounts/{name}/suspend': write('suspendAccount', '404 '),
      'post /admin/api/accounts/{name}/resume': write('resumeAccount', '404 '),
      'post /admin/api/accounts/{name}/cancel-jobs': write('cancelAccountJobs', '404 '),
      'post /admin/api/accounts/{name}/caps': write('setAccountCaps', '404 '),
      'delete /admin/api/accounts/{name}': write('deleteAccount', '404 409 '),
      'get /admin/api/usage': read('listUsage'),
      'get /admin/api/usage-events': read('listUsageEvents'),
      'get /admin/api/audit': read('listAuditLog'),
      'get /admin/api/keys': read('listKeys'),
      'post /admin/api/keys': ['createKey', 'adminToken', '201 401 403 409 413 415 429 500'],
      'post /admin/api/keys/{keyId}/rotate': [
        'rotateKey',
        'adminToken',
        '201 401 403 404 409 413 415 429 500',
      ],
      'get /admin/api/tokens': read('listAdminTokens'),
      'post /admin/api/tokens': ['createAdminToken', 'adminToken', '201 401 403 409 413 415 429 500'],
      'post /admin/api/tokens/{tokenId}/revoke': write('revokeAdminToken', '404 '),
      'post /admin/api/keys/{keyId}/revoke': write('revokeKey', '404 '),
      'get /admin/api/settings': read('getSettings'),
      'get /healthz': ['getHealth', null, '200'],
      'get /readyz': ['getReadiness', null, '200'],
      'get /metrics': ['getMetrics', null, '200'],
      'get /metrics/queue': ['getQueue', null, '200'],
    })
  })

  test('jobs are one type, discriminated by their status, and errors one type for all routes', async () => {
    const { components, paths } = (await parley.get(CALLERS)).body
    const { Job: union, Error: error } = components.schemas
    const statuses = ['pending', 'assigned', 'completed', 'failed']
    assert.deepEqual(Object.keys(union.discriminator.mapping), statuses)
    for (const [at, { $ref }] of union.oneOf.entries()) {
      const name = $ref.split('/').at(-1)
      assert.equal(components.schemas[name].properties.status.enum[0], statuses[at])
      assert.equal(union.discriminator.mapping[`${statuses[at]}`], $ref)
    }
    assert.deepEqual(Object.keys(error.properties), ['success', 'message', 'details'])
    const { data } =
      paths[`${MESSAGES}/{jobId}`].get.responses[200].content['application/json'].schema.properties
    assert.deepEqual(data, { $ref: '#/components/schemas/Job' })
    for (const name of [
      'Message',
      'ResponseFormat',
      'Callback',
      'BatchElement',
      'JobError',
      'CallbackEvent',
    ]) {
      assert.ok(components.schemas[name], name)
    }
  })

  test('every operation and every parameter is described, and parameters have examples', () => {
    for (const { paths } of [callers, operators]) {
      for (const [path, methods] of Object.entries<Answer['body']>(paths)) {
        for (const { operationId, description, parameters = [] } of Object.values<Answer['body']>(methods)) {
          assert.match(description ?? '', /\.$/, `${path} ${operationId}`)
          for (const { name, description, schema, example } of parameters) {
            assert.ok(description, `${operationId} ${name}`)
            assert.ok(schema.enum || example !== undefined, `${operationId} ${name}`)
            if (example !== undefined) assert.ok(Check(schema, example), `${operationId} ${name}`)
          }
        }
      }
    }
  })

  test('a callback has the shape and the headers that its webhook documents', async (t) => {
    const receiver = await startReceiver({}, t)
    const stage = await startStage(t, { settings: { callbacks: { allow_networks: ['127.0.0.0/8'] } } })
    const { parameters, requestBody } = callers.webhooks.jobEnded.post
    const schema = closed(requestBody.content['application/json'].schema)
    const own = await stage.parley.key()
    const callback = { callback_url: receiver.url, callback_payload: { order: 7 } }
    const fails = [{ role: 'user', content: 'fails' }]
    stage.models.script = ({ body }) =>
      body.messages[0]?.content === 'fails' ? reply.status(400) : undefined
    await stage.parley.post(BATCHES, [job({ callback }), job({ callback, messages: fails })], own)
    const received = await receiver.received(2)
    assert.deepEqual(received.map(({ body }) => JSON.parse(body).status).sort(), ['completed', 'failed'])
    for (const { body, headers } of received) {
      assert.ok(Check(schema, JSON.parse(body)), body)
      for (const { name, schema: own } of parameters) assert.ok(Check(own, headers[name]), name)
    }
  })

  test('/openapi.json: each single create is answered as documented', async () => {
    const post = (over: object, by: string | undefined = key) => parley.post(MESSAGES, job({ ...over }), by)
    const is = (status: number, given: Answer) => documented('post', MESSAGES, status, given)
    is(200, await post({}))
    models.script = () => reply.json({ any: ['JSON'] })
    is(200, await post({ response_format: { format: 'json' } }))
    models.script = () => reply.status(400)
    is(200, await post({ messages: [{ role: 'user', content: 'fails' }] }))
    models.script = () => reply.stall()
    const asked = models.requests.length
    const waiting = post({ messages: [{ role: 'user', content: 'stalls' }] })
    await models.received(asked + 1)
    clock.advance(90_000)
    is(202, await waiting)
    models.script = () => undefined
    models.release()
    is(400, await post({ messages: [] }))
    is(401, await parley.post(MESSAGES, job()))
    is(403, await post({ model: 'gpt-5' }, await parley.key('user_free')))
    is(413, await parley.post(MESSAGES, 'x'.repeat(3000), key))
    is(415, await parley.post(MESSAGES, '{}', key, { 'content-type': 'text/plain' }))
  })

  test('/openapi.json: every field of a failed job is documented', async () => {
    const read = operation('get', `${MESSAGES}/{jobId}`).responses['200']
    const union = read?.content['application/json']?.schema.properties.data.oneOf
    const schema = union.at(-1).properties.error
    models.script = () => reply.text('no JSON')
    const json = { response_format: { format: 'json' } }
    const wrong = await parley.post(
      MESSAGES,
      job({ ...json, messages: [{ role: 'user', content: 'talk' }] }),
      key,
    )
    models.script = () => reply.status(422)
    const broken = await parley.post(MESSAGES, job({ messages: [{ role: 'user', content: 'breaks' }] }), key)
    models.script = () => undefined
    for (const [given, fields] of [
      [wrong, ['code', 'message', 'errors', 'raw_text']],
      [broken, ['code', 'message', 'upstream_status', 'upstream_message']],
    ] as const) {
      assert.deepEqual(Object.keys(given.body.data.error), fields)
      for (const field of fields) assert.ok(Object.hasOwn(schema.properties, field), field)
    }
  })

  test('/openapi.json: each batch is answered as documented', async () => {
    const post = (body: unknown, by: string | undefined = key) => parley.post(BATCHES, body, by)
    const is = (status: number, given: Answer) => documented('post', BATCHES, status, given)
    is(202, await post([job(), job()]))
    is(400, await post([]))
    is(401, await parley.post(BATCHES, [job()]))
    is(403, await post(Array(3).fill(job()), await parley.key('user_free')))
    is(413, await post('x'.repeat(3000)))
    is(415, await parley.post(BATCHES, '[]', key, { 'content-type': 'text/plain' }))
  })

  test('/openapi.json: each read is answered as documented', async () => {
    const is = (status: number, given: Answer) => documented('get', `${MESSAGES}/{jobId}`, status, given)
    const created = await parley.post(MESSAGES, job(), key)
    is(200, await parley.get(`${MESSAGES}/${created.body.data.job_id}`, key))
    is(401, await parley.get(`${MESSAGES}/x`))
    is(404, await parley.get(`${MESSAGES}/${randomUUID()}`, key))
    const limited = await parley.key('user_go')
    await parley.get(`${MESSAGES}/x`, limited)
    is(429, await parley.get(`${MESSAGES}/x`, limited))
  })

  test('/openapi.json: the other routes are answered as documented', async () => {
    documented('get', '/api/v1/me', 200, await parley.get('/api/v1/me', key))
    documented('get', '/api/v1/me', 401, await parley.get('/api/v1/me'))
    for (const path of ['/healthz', '/readyz', '/metrics', '/metrics/queue']) {
      documented('get', path, 200, await parley.get(path))
    }
  })

  test('/openapi.json: 500 and 503 are as documented on every route', async (t) => {
    const { parley: broken } = await startStage(t)
    // The first key is cached before the store breaks; the second is never found.
    const [own, unseen] = [await broken.key(), await broken.key()]
    await broken.get('/api/v1/me', own)
    for (const [status, error] of [
      [500, new Error('a bug')],
      [503, new StoreUnavailable('the disk is full')],
    ] as const) {
      broken.store.accept = () => Promise.reject(error)
      broken.store.read = () => Promise.reject(error)
      broken.store.findKey = () => Promise.reject(error)
      broken.store.ping = () => Promise.reject(error)
      documented('post', MESSAGES, status, await broken.post(MESSAGES, job(), own))
      documented('post', BATCHES, status, await broken.post(BATCHES, [job()], own))
      documented('get', `${MESSAGES}/{jobId}`, status, await broken.get(`${MESSAGES}/${randomUUID()}`, own))
      documented('get', '/api/v1/me', status, await broken.get('/api/v1/me', unseen))
    }
    documented('get', '/readyz', 503, await broken.get('/readyz'))
  })

  test('/openapi.json: the documented bodies are those that are accepted', () => {
    const schemaOf = (path: string) =>
      callers.paths[path].post.requestBody.content['application/json'].schema as object
    const callback = {
      callback_url: 'https://example.com',
      callback_headers: { a: 'b' },
      callback_payload: { c: 1 },
    }
    const full = {
      message_cache_ttl: 300,
      response_format: { format: 'json', schema: { type: 'object' } },
      messages: ['system', 'developer', 'assistant', 'user'].map((role) => ({ role, content: '' })),
    }
    assert.ok(Check(schemaOf(MESSAGES), job({ ...full, timeout: 30 })))
    assert.ok(Check(schemaOf(BATCHES), [job({ ...full, callback })]))
    assert.ok(!Check(schemaOf(MESSAGES), job({ callback })))
    assert.ok(!Check(schemaOf(BATCHES), [job({ timeout: 30 })]))
  })

  test('every example in a document satisfies the schema next to it', () => {
    const visit = (node: unknown, path: string): void => {
      if (typeof node !== 'object' || node === null) return
      const { example, examples, schema, default: byDefault, ...rest } = node as Record<string, unknown>
      const against = (schema ?? rest) as object
      const given = Array.isArray(examples)
        ? examples
        : Object.values((examples ?? {}) as Record<string, { value: unknown }>).map(({ value }) => value)
      for (const value of [...given, example, byDefault]) {
        if (value !== undefined) assert.ok(Check(against, value), `${path}: ${JSON.stringify(value)}`)
      }
      for (const [name, child] of Object.entries(node)) visit(child, `${path}/${name}`)
    }
    for (const document of [callers, operators]) visit([document.paths, document.webhooks], '')
  })

  test('/docs is a page that loads everything from its own server', async () => {
    const page = await parley.get('/docs')
    assert.equal(page.status, 200)
    assert.match(page.headers.get('content-type') ?? '', /^text\/html/)
    assert.doesNotMatch(page.text, /https?:|["'(=]\s*\/\//)
    const addresses = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map((found) => `${found[1]}`)
    assert.ok(addresses.length > 0)
    for (const address of addresses) {
      const asset = await parley.request(new URL(address, `${parley.url}/docs/`).pathname, {})
      assert.equal(asset.status, 200, address)
      assert.match(asset.headers.get('content-type') ?? '', /javascript|css/)
    }
    for (const path of [CALLERS, OPERATORS]) assert.ok(page.text.includes(`"${path}"`), path)
    for (const off of ['"withDefaultFonts": false', '"telemetry": false'])
      assert.ok(page.text.includes(off), off)
  })

  test('files are compressed, have an ETag, and are not sent again to clients that have them', async () => {
    await parley.get('/dashboard')
    const dashboard = (await parley.get('/dashboard')).text
    const files = [...dashboard.matchAll(/(?:src|href)="(\/dashboard\/files\/[^"]+)"/g)].map(
      ([, file]) => `${file}`,
    )
    assert.ok(files.length > 5)
    for (const path of [
      CALLERS,
      OPERATORS,
      '/docs/',
      '/docs/js/scalar.js',
      '/dashboard',
      ...files.slice(0, 3),
    ]) {
      const get = (headers: Record<string, string>, method = 'GET') =>
        fetch(parley.url + path, { method, headers })
      const plain = await get({ 'accept-encoding': 'identity' })
      const body = Buffer.from(await plain.arrayBuffer())
      assert.equal(plain.headers.get('content-encoding'), null, path)
      assert.equal(plain.headers.get('content-length'), String(body.length), path)
      const zipped = await get({ 'accept-encoding': 'gzip' })
      assert.equal(zipped.headers.get('content-encoding'), 'gzip', path)
      assert.equal(zipped.headers.get('vary'), 'accept-encoding', path)
      assert.deepEqual(Buffer.from(await zipped.arrayBuffer()), body, path)
      const [etag, other] = [plain, zipped].map((response) => response.headers.get('etag') ?? '')
      assert.notEqual(etag, other, path)
      assert.match(etag ?? '', /^"[\w-]+"$/)
      for (const named of [etag, `W/${etag}`, `"none", ${etag}`, '*']) {
        const again = await get({ 'accept-encoding': 'identity', 'if-none-match': `${named}` })
        assert.deepEqual([again.status, (await again.arrayBuffer()).byteLength], [304, 0], `${path} ${named}`)
      }
      const changed = await get({ 'accept-encoding': 'identity', 'if-none-match': `${other}` })
      assert.equal((await changed.arrayBuffer()).byteLength, body.length, path)
      const head = await get({ 'accept-encoding': 'gzip;q=0, br' }, 'HEAD')
      assert.deepEqual([head.status, head.headers.get('content-encoding')], [200, null], path)
      assert.equal(head.headers.get('content-length'), String(body.length), path)
    }
  })
})
