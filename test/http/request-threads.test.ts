/** Several request threads are one server: the same answers, one set of limits, connections spread evenly, one stop. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import test, { type TestContext } from 'node:test'
import { Client } from 'undici'
import { makeKey } from '../../src/accounts/key.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, type Answer, job, type Parley, startParley } from '../parley.ts'
import { eventually } from '../support/eventually.ts'
import { openLine } from './raw-http.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const THREADS = 3
/** Of what differs between any two responses. */
const VOLATILE = ['date', 'x-request-id', 'ratelimit-remaining', 'ratelimit-reset']
const ID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}/g

async function start(t: TestContext, threads: number, settings: Readonly<Record<string, unknown>> = {}) {
  const models = await startModelServer({ keep: false })
  t.after(() => models.close())
  const parley = await startParley(t, { upstream: models.baseUrl, settings: { threads, ...settings } })
  return { models, parley }
}

/** Connections of each request thread, the one that asks among them. */
async function connectionsOf(parley: Parley): Promise<number[]> {
  const line = openLine(parley)
  const authorization = `authorization: Bearer ${ADMIN_TOKEN}`
  line.send(`GET /admin/api/overview HTTP/1.1\r\nhost: p\r\n${authorization}\r\nconnection: close\r\n\r\n`)
  const text = await line.closed
  const { data } = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4))
  return data.threads.map(({ connections }: { readonly connections: number }) => connections)
}

const headersOf = ({ headers }: Answer) =>
  Object.fromEntries([...headers].filter(([name]) => !VOLATILE.includes(name)).toSorted())

onEachStore(() => {
  test('requests of every kind get the same answers from one thread and from several', async (t) => {
    const answersOf = async (threads: number): Promise<unknown[]> => {
      const { parley } = await start(t, threads)
      const key = await parley.key('user_go')
      const schema = { type: 'object', properties: { a: { type: 'string', default: 'x' } } }
      const withSchema = job({ response_format: { format: 'json', schema } })
      const long = job({ messages: [{ role: 'user', content: 'long '.repeat(20_000) }] })
      const answers = [
        await parley.post(MESSAGES, job(), key),
        await parley.post(MESSAGES, job(), key),
        await parley.post(MESSAGES, withSchema, key),
        await parley.post(MESSAGES, long, key),
        await parley.post(MESSAGES, job(), key, { 'idempotency-key': 'one' }),
        await parley.post(MESSAGES, job(), key, { 'content-type': 'text/plain' }),
        await parley.post(MESSAGES, '{"model":', key),
        await parley.post(MESSAGES, job({ model: 'none' }), key),
        await parley.post(MESSAGES, job({ timeout: -1 }), key),
        await parley.post(MESSAGES, job(), 'prl_unknown'),
        await parley.post(MESSAGES, job()),
        await parley.post(BATCHES, [], key),
        await parley.post(BATCHES, [job(), job({ messages: [] })], key),
        await parley.get('/api/v1/nothing', key),
        await parley.get(`${MESSAGES}/01a20364-ea83-7000-97f0-c24ab429e057`, key),
        await parley.request(MESSAGES, { method: 'DELETE', headers: { 'x-api-key': key } }),
        await parley.request(MESSAGES, { method: 'OPTIONS', headers: { origin: 'https://a.example' } }),
        await parley.get('/healthz'),
      ]
      const batch = await parley.post(BATCHES, [job(), job()], key)
      const [jobId] = batch.body.data.job_ids
      answers.push(batch, await parley.get(`${MESSAGES}/${jobId}?wait=60`, key))
      answers.push(await parley.get(`${MESSAGES}/${jobId}`, key))
      return answers.map((answer) => ({
        status: answer.status,
        headers: headersOf(answer),
        text: answer.text.replaceAll(ID, 'ID').replace(/"created_at":\d+/, ''),
      }))
    }
    const [one, several] = await Promise.all([answersOf(1), answersOf(2)])
    assert.deepEqual(several, one)
  })

  test('what comes before the end of a client’s requests, or before what is not HTTP, is answered as by one thread', async (t) => {
    const ask = (path: string) => `GET ${path} HTTP/1.1\r\nhost: p\r\n\r\n`
    const said = [
      ask('/healthz'),
      ask('/healthz') + ask('/api/v1/nothing'),
      `${ask('/healthz')}NOT HTTP\r\n\r\n`,
      'POST /api/v1/messages HTTP/1.1\r\nhost: p\r\ncontent-length: 5\r\n\r\n{',
      'POST / HTTP/1.1\r\nhost: p\r\ntrailer: digest\r\ncontent-length: 2\r\n\r\n{}',
      'GET /healthz HTTP/1.0\r\nexpect: 100-continue\r\n\r\n',
    ]
    const statusesOf = async (threads: number) => {
      const { parley } = await start(t, threads)
      return Promise.all(said.map((text) => statusesAfter(parley, text)))
    }
    const one = await statusesOf(1)
    assert.deepEqual(one, ['200', '200 404', '200 400', '401 400', '404', '200'])
    assert.deepEqual(await statusesOf(2), one)
  })

  test('an unknown key counts once, although two threads look at it', async (t) => {
    const { parley } = await start(t, THREADS, { limits: { unknown_keys_per_minute: 2 } })
    const statuses: number[] = []
    for (let sent = 0; sent < 4; sent++) {
      statuses.push((await parley.post(MESSAGES, job(), makeKey())).status)
    }
    assert.deepEqual(statuses, [401, 401, 429, 429])
    assert.match((await parley.get('/metrics')).text, /^parley_unknown_key_rejections_total 2$/m)
  })

  test('a create that the database cannot store is rejected, and not tried again', async (t) => {
    const { parley } = await start(t, THREADS)
    const key = await parley.key()
    assert.equal((await parley.post(MESSAGES, job(), key)).status, 200)
    let tried = 0
    const accept = () => {
      tried += 1
      return Promise.reject(new StoreUnavailable('down'))
    }
    Object.assign(parley.store, { accept, acceptEnded: accept })
    const { status, headers, body } = await parley.post(BATCHES, [job()], key)
    assert.deepEqual([status, headers.get('retry-after'), tried], [503, '1', 1])
    assert.equal(body.message, 'Service temporarily unavailable.')
  })

  test('the process has one set of limits, and a stop answers who waits on every thread', async (t) => {
    const { parley, models } = await start(t, THREADS, {
      tiers: { user_go: { max_open_jobs: 5, reads_per_minute: 7 } },
      sync: { max_waiters: 3 },
      jobs: { drain_seconds: 0 },
    })
    models.script = () => reply.stall()
    const key = await parley.key('user_go')
    const each = <Result>(ask: () => Promise<Result>) => Promise.all(Array.from({ length: 12 }, ask))
    const created = await each(() => parley.post(BATCHES, [job()], key))
    assert.deepEqual(countOf(created), { 202: 5, 403: 7 }, 'a quota')
    const jobId = created.find(({ status }) => status === 202)?.body.data.job_ids[0]
    const read = await each(() => parley.get(`${MESSAGES}/${jobId}`, key))
    assert.deepEqual(countOf(read), { 200: 7, 429: 5 }, 'reads a minute')

    const other = await parley.key('user_max')
    const waiting = Array.from({ length: 12 }, () => parley.post(MESSAGES, job({ timeout: 100 }), other))
    const early: Answer[] = []
    await new Promise<void>((resolve) => {
      for (const one of waiting) void one.then((answer) => early.push(answer) === 9 && resolve())
    })
    assert.deepEqual(countOf(early), { 202: 9 }, 'pending responses')
    const stopped = parley.stop()
    const answers = await Promise.all(waiting)
    assert.deepEqual(countOf(answers), { 202: 12 })
    const closing = answers.filter(({ headers }) => headers.get('connection') === 'close')
    assert.equal(closing.length, 3)
    await stopped
  })

  test('connections are spread over the threads, and again after most of some threads were closed', async (t) => {
    const { parley } = await start(t, THREADS)
    const clients = Array.from({ length: 8 }, () => new Client(parley.url))
    t.after(() => Promise.all(clients.map((client) => client.destroy())))
    /** Over the connection that the client has, or over another if a response has closed it. */
    const ask = async (client: Client) => {
      const { statusCode, body } = await client.request({ method: 'GET', path: '/healthz' })
      await body.dump()
      assert.equal(statusCode, 200)
    }
    for (const client of clients) await ask(client)
    assert.deepEqual(await connectionsOf(parley), [3, 3, 3], 'with the connection that asks')

    // Every third one was given to the first thread; the others hang up.
    const left = clients.filter((_, at) => at % THREADS === 0)
    await Promise.all(clients.filter((client) => !left.includes(client)).map((client) => client.destroy()))
    const counts = await eventually(
      async () => {
        await Promise.all(left.map(ask))
        return connectionsOf(parley)
      },
      (open) => open.reduce((sum, count) => sum + count, 0) === 4 && Math.max(...open) === 2,
      t,
    )
    assert.deepEqual(counts.toSorted(), [1, 1, 2], 'with the connection that asks')
  })
})

/** Sends this, and that nothing more comes; resolves with the statuses of the answers. */
async function statusesAfter({ url }: Parley, text: string): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true }).setEncoding('utf8')
  socket.end(text)
  let answers = ''
  for await (const piece of socket) answers += piece
  return [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status).join(' ')
}

function countOf(answers: readonly Answer[]): Readonly<Record<number, number>> {
  const counts: Record<number, number> = {}
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1
  return counts
}
