/** Tests the OpenAPI documents and the page that shows them. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { Check } from 'typebox/schema'
import { type ModelServerForTests, reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { type Answer, job, type Parley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { beforeTests } from '../support/on-first-use.ts'
import { BATCHES, type Caller, LOCAL_CALLBACKS, MESSAGES, says, startScene } from './caller.ts'
import { failed } from './expect.ts'
import { CALLERS, closed, documentAt, OPERATORS } from './openapi/document.ts'

const ANY_REQUEST = [400, 405, 408, 431, 503]

onAnyStore(() => {
  let parley: Parley
  let models: ModelServerForTests
  let caller: Caller
  let callers: Answer['body']
  let operators: Answer['body']
  beforeTests(async (t) => {
    ;({ parley, models, caller } = await startScene(t, { settings: LOCAL_CALLBACKS }))
    callers = await documentAt(parley, CALLERS)
    operators = await documentAt(parley, OPERATORS)
  })

  interface Operation {
    readonly operationId: string
    readonly responses: Record<string, object>
    readonly summary?: string
    readonly security: readonly object[]
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
    const write = (operationId: string, more = '', success = 200) => [
      operationId,
      'adminToken',
      `${success} 401 403 ${more}413 415 429 500`,
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
      'post /admin/api/keys': write('createKey', '409 ', 201),
      'post /admin/api/keys/{keyId}/rotate': write('rotateKey', '404 409 ', 201),
      'get /admin/api/tokens': read('listAdminTokens'),
      'post /admin/api/tokens': write('createAdminToken', '409 ', 201),
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
    const others = ['Message', 'ResponseFormat', 'Callback', 'BatchElement', 'JobError', 'CallbackEvent']
    for (const name of others) assert.ok(components.schemas[name], name)
  })

  test('every operation and every parameter is described, and parameters have examples', () => {
    for (const { paths } of [callers, operators]) {
      for (const [path, methods] of Object.entries<Answer['body']>(paths)) {
        for (const { operationId, description, parameters = [] } of Object.values<Answer['body']>(methods)) {
          assert.match(description ?? '', /\.$/, `${path} ${operationId}`)
          for (const { name, description, schema, example } of parameters) {
            assert.ok(description, `${operationId} ${name}`)
            assert.ok(schema.enum || example !== undefined, `${operationId} ${name}`)
          }
        }
      }
    }
  })

  test('a parameter is the `next` of a page only if pages have it', () => {
    const paths = Object.values<Record<string, Answer['body']>>({ ...callers.paths, ...operators.paths })
    for (const { operationId, parameters = [], responses } of paths.flatMap((path) => Object.values(path))) {
      if (!parameters.some(({ description }: Answer['body']) => /`next`/.test(description))) continue
      assert.match(JSON.stringify(responses['200']), /"next":\{/, operationId)
    }
  })

  test('a callback has the shape and the headers that its webhook documents', async (t) => {
    const receiver = await startReceiver({}, t)
    const { parameters, requestBody } = callers.webhooks.jobEnded.post
    const schema = closed(requestBody.content['application/json'].schema)
    const callback = { callback_url: receiver.url, callback_payload: { order: 7 } }
    models.script = ({ text }) => (text.includes('fails') ? reply.status(400) : undefined)
    await caller.enqueue([job({ callback }), says('fails', { callback })])
    const received = await receiver.received(2)
    models.script = () => undefined
    assert.deepEqual(received.map(({ body }) => JSON.parse(body).status).sort(), ['completed', 'failed'])
    for (const { body, headers } of received) {
      assert.ok(Check(schema, JSON.parse(body)), body)
      for (const { name, schema: own } of parameters) assert.ok(Check(own, headers[name]), name)
    }
  })

  test('/openapi.json: every field of a failed job is documented', async () => {
    const { schema } = callers.paths[`${MESSAGES}/{jobId}`].get.responses['200'].content['application/json']
    const { properties } = schema.properties.data.oneOf.at(-1).properties.error
    const asJson = { response_format: { format: 'json' } }
    for (const [answer, over, fields] of [
      [reply.text('no JSON'), asJson, ['code', 'message', 'errors', 'raw_text']],
      [reply.status(422), {}, ['code', 'message', 'upstream_status', 'upstream_message']],
    ] as const) {
      models.script = () => answer
      const given = await caller.ask(fields.join(), over)
      assert.deepEqual(Object.keys(failed(given)), fields)
      for (const field of fields) assert.ok(Object.hasOwn(properties, field), field)
      assert.ok(Check(closed(schema), given.body), given.text)
    }
    models.script = () => undefined
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
    const found = [...dashboard.matchAll(/(?:src|href)="(\/dashboard\/files\/[^"]+)"/g)]
    const files = found.map(([, file]) => `${file}`)
    assert.ok(files.length > 5)
    const pages = [CALLERS, OPERATORS, '/docs/', '/docs/js/scalar.js', '/dashboard']
    for (const path of [...pages, ...files.slice(0, 3)]) {
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
