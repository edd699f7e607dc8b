/**
 * Walks through the OpenAPI documents. Every route gets valid and invalid requests made from its schemas and examples, and
 * every response must be documented. At the end, every documented status must have been seen.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test, { after } from 'node:test'
import { Check } from 'typebox/schema'
import { makeKey } from '../../src/accounts/key.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { reply } from '../model-server.ts'
import { onEachStore, storeName } from '../on-each-store.ts'
import { ADMIN_TOKEN, job } from '../parley.ts'
import { LONG } from '../support/long-form.ts'
import { BATCHES, MESSAGES, says } from './caller.ts'
import { granted } from './expect.ts'
import { conforms, documentedRoutes, examplesOf, OPERATORS, type Route } from './openapi/document.ts'
import { mistakes, variations, wrongTexts } from './openapi/requests.ts'
import { takenAway } from './openapi/taken-away.ts'
import { startWalked } from './openapi/walked.ts'
import { walkerOf } from './openapi/walker.ts'
import { talk } from './raw-http.ts'

const WRONG_TOKENS = 10
/** The setting `limits.unknown_keys_per_minute` has this default. */
const UNKNOWN_KEYS = 60
/** No route accepts so many bytes in this test. They are few enough to be sent before the rejection arrives. */
const LONG_BODY = 'x'.repeat(1_100_000)

/** The walk does not cause these documented responses, for the given reasons. */
const NOT_PROVOKED: Readonly<Record<string, string>> = {
  'GET /admin/api/settings 500': 'what it answers is made at the start: nothing in it can fail',
  'GET /admin/api/settings 503': 'the same; it does not ask the database',
  'GET /admin/api/events 500': 'what it sends is in memory: nothing in it can fail',
  'GET /admin/api/events 503': 'wants 500 open streams, which admin/overview.test.ts opens',
  'GET /healthz 503':
    'only while the server has all its connections: src/http/load-shedding/connection-limits.test.ts',
  'GET /metrics 503': 'the same',
}
/** The server sends this status before it knows the route. broken-requests.test.ts tests it for all routes. */
const REQUEST_TIMEOUT = ' 408'

/** This route was released without query parameters, and some callers add one to bypass caches, so it must ignore any. */
const TAKES_ANY_QUERY = 'GET /api/v1/messages/{jobId}'

onEachStore(async () => {
  const { parley, models, clock, receiver, served, key, parameters } = await startWalked({ after })
  const routes = await documentedRoutes(parley)
  // Parley checks schemas before it asks the store, so the second store gets fewer generated requests.
  const [variationsOfEach, mistakesOfEach] = LONG || storeName() === 'SQLite' ? [3, undefined] : [1, 1]

  const { seen, expectOf, took } = walkerOf(parley, key, parameters)
  const posts = routes.filter(({ method }) => method === 'POST')
  const writes = routes.filter(({ method }) => method !== 'GET')
  const ofPath = (path: string, method = 'POST'): Route => {
    const found = routes.find((route) => route.path === path && route.method === method)
    assert.ok(found, path)
    return found
  }
  const examplesFor = ({ body }: Route): unknown[] =>
    (body?.examples ?? []).map((example) =>
      JSON.parse(JSON.stringify(example).replaceAll(/https:\/\/app\.example\.com\/[\w/]*/g, receiver.url)),
    )
  const unknownOf: Readonly<Record<string, readonly string[]>> = {
    jobId: [randomUUID(), 'x', '%', 'ü', '../..', 'x'.repeat(500)],
    keyId: ['x', `key_${randomUUID()}`, '%00'],
    batchId: ['x', `batch_${randomUUID()}`, '%00'],
    tokenId: ['x', 'tok_none', '%00'],
    name: ['nobody', 'ü', 'x'.repeat(500)],
  }
  const WRONG_HEADERS: Readonly<Record<string, string>> = {
    'idempotency-key': 'x y',
    'x-parley-operator': 'x'.repeat(65),
  }
  const SUCCESSES = [200, 201, 202]
  async function asTimePasses(settles: Promise<unknown>): Promise<void> {
    let isSettled = false
    const settled = settles.finally(() => {
      isSettled = true
    })
    while (!isSettled) {
      await parley.get('/healthz')
      clock.advance(5)
    }
    await settled
  }
  const { done, openJob, endedJob } = takenAway({ parley, models, clock }, key, expectOf)

  test('every route under /api and /admin/api is in a document, and no other', () => {
    const documented = routes.map(({ method, path }) => `${method} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`)
    // HEAD routes come with GET routes and are not documented.
    const ours = served.filter(
      ({ method, url }) => method !== 'HEAD' && url !== OPERATORS && /^\/(admin\/)?api\//.test(url),
    )
    const names = ours.map(({ method, url }) => `${method} ${url}`)
    assert.deepEqual(
      [...new Set(names)].sort(),
      documented.filter((name) => /^\w+ \/(admin\/)?api\//.test(name)).sort(),
    )
  })

  test('every route with a body has examples, and every example has the shape next to it', () => {
    for (const route of routes) {
      const { name, body, responses } = route
      if (body) assert.ok(body.examples.length > 0, `${name} has no example`)
      for (const example of body?.examples ?? []) assert.ok(Check(body?.schema, example), name)
      for (const [status, { content = {} }] of Object.entries(responses)) {
        const media = content['application/json']
        for (const body of media ? examplesOf(media) : []) {
          const headers = new Headers({ 'content-type': 'application/json' })
          const text = JSON.stringify(body)
          conforms(route, 'an example', { status: Number(status), headers, body, text })
        }
      }
    }
  })

  test('what the document describes as valid is accepted', async () => {
    models.script = () => reply.text('{"river":"Lena","km":4294}')
    for (const route of routes) {
      const bodies = route.body ? examplesFor(route) : [undefined]
      for (const body of bodies) await done(route, SUCCESSES, { about: 'an example', body })
      if (route.body && !route.body.required) await expectOf(route, SUCCESSES, { about: 'no body' })
      if (route.method === 'GET') await expectOf(route, [200], { about: 'again' })
    }
    models.script = () => undefined
  })

  test('every value that a schema allows is answered as documented', async () => {
    for (const route of posts) {
      for (const body of variations(route.body?.schema ?? {}, examplesFor(route), variationsOfEach)) {
        await expectOf(route, [...SUCCESSES, 400, 403, 404, 409], { about: 'generated', body })
      }
    }
    for (const route of routes) {
      for (const { name, in: place, schema } of route.parameters) {
        if (place !== 'query') continue
        for (const value of schema.enum ?? [schema.minimum ?? 'x', schema.maximum ?? 'ü']) {
          const query = `?${new URLSearchParams({ [name]: String(value) })}`
          await done(route, [200, 400], { about: query, query })
        }
      }
    }
  })

  test('400 for each thing that a schema does not allow', async () => {
    let count = 0
    for (const route of writes) {
      const wrong = mistakes(route.body?.schema ?? {}, examplesFor(route))
      for (const { about, body } of wrong.slice(0, mistakesOfEach)) {
        await expectOf(route, [400], { about, body: JSON.stringify(body) })
        count += 1
      }
      for (const body of ['{', '{"a":1}}', '\u0000', '"\\ud8"']) {
        await expectOf(route, [400], { about: 'no JSON', body })
      }
      // A route whose body is optional accepts an empty body with any content type.
      if (!route.body?.required) continue
      await expectOf(route, [400], { about: 'an empty body', body: '' })
      const headers = { 'content-type': 'application/json' }
      await expectOf(route, [400], { about: 'no body', headers })
    }
    if (mistakesOfEach === undefined) assert.ok(count > 200, `only ${count} mistakes were made`)
    for (const route of routes) {
      const queries = route.parameters.filter((one) => one.in === 'query')
      for (const { name, schema } of queries) {
        for (const text of wrongTexts(schema)) {
          const query = `?${new URLSearchParams({ [name]: text })}`
          await expectOf(route, [400], { about: query, query })
        }
      }
      if (queries.length > 0) {
        const statuses = route.name === TAKES_ANY_QUERY ? [200] : [400]
        await expectOf(route, statuses, { about: 'a query unknown', query: '?unknown=1' })
      }
      for (const { name } of route.parameters.filter((one) => one.in === 'header')) {
        const [body] = examplesFor(route)
        const headers = { [name]: WRONG_HEADERS[name] ?? assert.fail(`no wrong ${name}`) }
        await expectOf(route, [400], { about: name, body, headers })
      }
    }
  })

  test('401 without the key or the token, and with a wrong one', async () => {
    for (const [at, route] of routes.filter(({ wants }) => wants).entries()) {
      const header = route.wants === 'apiKey' ? 'x-api-key' : 'authorization'
      for (const value of ['', 'Bearer wrong', key.slice(0, -1)]) {
        const headers = { [header]: value, 'x-forwarded-for': `192.0.2.${at + 1}` }
        await expectOf(route, [401], { about: `${header}: ${value}`, headers })
      }
      const other: Record<string, string> =
        route.wants === 'apiKey'
          ? { 'x-api-key': '', authorization: `Bearer ${ADMIN_TOKEN}` }
          : { authorization: '', 'x-api-key': key }
      await expectOf(route, [401], { about: 'opened by what opens other routes', headers: other })
    }
  })

  test('403 where the tier does not allow it', async () => {
    const headers = { 'x-api-key': await parley.key('user_free') }
    const model = job({ model: 'gpt-5' })
    await expectOf(ofPath(MESSAGES), [403], { about: 'a model', headers, body: model })
    await expectOf(ofPath(BATCHES), [403], { about: 'a batch', headers, body: Array(3).fill(job()) })
  })

  test('404 for each ID that never existed', async () => {
    for (const route of routes) {
      for (const { name } of route.parameters.filter((one) => one.in === 'path')) {
        const [body] = examplesFor(route)
        for (const id of unknownOf[name] ?? assert.fail(`no unknown ${name}`)) {
          await expectOf(route, [404], { about: `${name} ${id}`, parameters: { [name]: id }, body })
        }
      }
    }
  })

  test('409 where the state does not allow it', async () => {
    const body = { account: 'user_max', tier: 'user_free' }
    await expectOf(ofPath('/admin/api/keys'), [409], { about: 'another tier', body })
    // Callbacks of earlier requests may still arrive and use up answers of the script, so it has more answers than this test
    // needs.
    receiver.script(...Array(20).fill({ kind: 'stall' }))
    const callback = { callback_url: receiver.url }
    const [jobId] = granted(await parley.post(BATCHES, [job({ callback })], key), 202).job_ids
    const ended = { parameters: { jobId: await endedJob() } }
    for (const path of ['/admin/api/jobs/{jobId}', `${MESSAGES}/{jobId}`]) {
      await expectOf(ofPath(`${path}/cancel`), [409], { about: 'ended', ...ended })
    }
    const open = { parameters: { jobId: await openJob() } }
    for (const path of ['/admin/api/jobs/{jobId}', `${MESSAGES}/{jobId}`]) {
      await expectOf(ofPath(path, 'DELETE'), [409], { about: 'open', ...open })
    }
    models.release()
    await expectOf(ofPath('/admin/api/batches/{batchId}/cancel'), [409], { about: 'ended' })
    const { deleteJobsOf } = parley.store
    parley.store.deleteJobsOf = async () => ({ deleted: 1, open: 0, next: null })
    await done(ofPath('/admin/api/accounts/{name}', 'DELETE'), [409], { about: 'still in use' })
    parley.store.deleteJobsOf = deleteJobsOf
    const replay = ofPath('/admin/api/callbacks/{jobId}/replay')
    for (let status = 0; status !== 409; ) {
      const answer = await expectOf(replay, [200, 404, 409], { about: 'a replay', parameters: { jobId } })
      status = answer.status
      // Parley calls a target that has failed last for a while, so time must pass.
      clock.advance(1000)
    }
    receiver.release()
  })

  test('413 and 415 for bodies that are too long, or no JSON by their type', async () => {
    for (const route of writes) {
      // Before the connection's next request, the server reads the rest of the long body, which takes time on the clock.
      await asTimePasses(expectOf(route, [413], { about: 'long', body: LONG_BODY }))
      const headers = { 'content-type': 'text/plain' }
      await asTimePasses(expectOf(route, [415], { about: 'of another type', body: '{}', headers }))
    }
  })

  test('405 for another method, 431 for large headers, and 400 for two hosts, on every path', async () => {
    for (const route of routes) {
      const other = await expectOf(route, [405], { about: 'another method', method: 'PATCH' })
      assert.ok(other.headers.get('allow')?.split(', ').includes(route.method), route.name)
      const headers = { 'x-long': 'x'.repeat(20_000) }
      await expectOf(route, [431], { about: 'large headers', headers })
      const head = `${route.method} ${route.path.replaceAll(/[{}]/g, '')} HTTP/1.1\r\nhost: a\r\nhost: b\r\n`
      took(route, 'two hosts', await talk(parley, `${head}connection: close\r\n\r\n`), [400])
    }
  })

  test('202 for a job that takes longer than its timeout', async () => {
    models.script = () => reply.stall()
    const asked = models.requests.length
    const waiting = expectOf(ofPath(MESSAGES), [202], { about: 'stalls', body: says('stalls') })
    await models.received(asked + 1)
    clock.advance(90_000)
    await waiting
    models.script = () => undefined
    models.release()
  })

  test('403 for a read-only admin token, on every route that changes something or shows contents', async () => {
    const made = await parley.request('/admin/api/tokens', {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'reader', read_only: true }),
    })
    const headers = { authorization: `Bearer ${granted(made, 201).token}` }
    for (const route of routes.filter(({ wants, responses }) => wants === 'adminToken' && '403' in responses))
      await expectOf(route, [403], { about: 'a read-only token', headers })
  })

  test('429 for reads past the tier’s, and for who guesses tokens or keys', async () => {
    const read = ofPath(`${MESSAGES}/{jobId}`, 'GET')
    const headers = { 'x-api-key': await parley.key('user_go') }
    await expectOf(read, [404], { about: 'the first', headers })
    await expectOf(read, [429], { about: 'the second', headers })
    const admin = routes.filter(({ wants }) => wants === 'adminToken')
    const [guessed] = admin
    assert.ok(guessed)
    const guess = { 'x-forwarded-for': '198.51.100.1', authorization: 'Bearer guess' }
    for (let sent = 0; sent < WRONG_TOKENS; sent++)
      await expectOf(guessed, [401], { about: 'a guess', headers: guess })
    for (const route of admin) await expectOf(route, [429], { about: 'after guesses', headers: guess })
    const unknownKey = () => ({ 'x-forwarded-for': '198.51.100.2', 'x-api-key': makeKey() })
    for (let sent = 0; sent < UNKNOWN_KEYS; sent++)
      await expectOf(read, [401], { about: 'an unknown key', headers: unknownKey() })
    for (const route of routes.filter(({ wants }) => wants === 'apiKey'))
      await expectOf(route, [429], { about: 'after unknown keys', headers: unknownKey() })
  })

  test('500 for a bug, and 503 while the database refuses', async () => {
    const unseen = { 500: await parley.key(), 503: await parley.key() }
    const asked =
      'accept read findKey ping depth callbackDepth searchJobs findJob jobContent searchCallbacks findCallback listBatches findAnyBatch queueDepths'
    const written =
      'replayCallback replayFailedCallbacks listAccounts setTier rotateSecret secrets searchKeys createKey rotateKey revokeKey createAdminToken listAdminTokens revokeAdminToken addAuditEntry listUsage jobUses listAuditEntries cancelOwnJob deleteOwnJob'
    const broken = new Map<string, unknown>()
    const store = parley.store as unknown as Record<string, unknown>
    for (const [status, error] of [
      [500, new Error('a bug')],
      [503, new StoreUnavailable('the disk is full')],
    ] as const) {
      for (const name of `${asked} ${written}`.split(' ')) {
        assert.equal(typeof store[name], 'function', name)
        broken.set(name, store[name])
        store[name] = () => Promise.reject(error)
      }
      try {
        for (const route of routes) {
          if (!route.responses[status] || NOT_PROVOKED[`${route.name} ${status}`]) continue
          const [body] = examplesFor(route)
          const byKey = route.path === '/api/v1/me' && { 'x-api-key': unseen[status] }
          await expectOf(route, [status, ...(route.path === '/readyz' ? [503] : [])], {
            about: 'a broken store',
            body,
            ...(byKey && { headers: byKey }),
          })
        }
      } finally {
        for (const [name, own] of broken) store[name] = own
      }
    }
  })

  test('every status of the document was seen', () => {
    const promised = routes.flatMap(({ name, responses }) =>
      Object.keys(responses).map((status) => `${name} ${status}`),
    )
    const isProvoked = (one: string) => NOT_PROVOKED[one] === undefined && !one.endsWith(REQUEST_TIMEOUT)
    const missing = promised.filter((one) => !seen.has(one) && isProvoked(one))
    assert.deepEqual(missing, [])
    for (const one of Object.keys(NOT_PROVOKED)) assert.ok(promised.includes(one) && !seen.has(one), one)
  })
})
