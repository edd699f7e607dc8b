/** Tests a shutdown behind a load balancer: `/readyz` reports it first, and the listener closes last. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { finished } from 'node:stream/promises'
import { test } from 'node:test'
import { Client } from 'undici'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { enqueued, granted } from './expect.ts'
import { type Stage, startStage, stopAtOnce } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const LISTEN_MS = 5000
/** Open connections are served for this many milliseconds after the listener has closed. */
const LAST_REQUESTS_MS = 500

/** Returns whether the server accepts a new connection. */
async function isAccepted(url: string): Promise<boolean> {
  const { port, hostname } = new URL(url)
  const socket = connect(Number(port), hostname)
  const accepted = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return accepted
}

onEachStore(() => {
  test('for shutdown.listen_seconds, /readyz responds with 503 while requests are accepted and jobs run', async (t) => {
    // This hook runs before the stage's own. If the test fails early, it advances the clock, so that the server can stop.
    let stage: Stage | undefined
    t.after(() => stage?.clock.advance(LISTEN_MS + LAST_REQUESTS_MS))
    const settings = { shutdown: { listen_seconds: LISTEN_MS / 1000 } }
    stage = await startStage(t, { settings })
    const { parley, models, clock } = stage
    const key = await parley.key()
    assert.equal((await parley.get('/readyz')).status, 200)
    const stopped = parley.stop()

    const unready = await parley.get('/readyz')
    assert.equal(unready.status, 503)
    assert.equal((await parley.get('/healthz')).status, 200)
    const single = await parley.post(MESSAGES, job(), key)
    assert.deepEqual([single.status, single.body.data.status], [200, 'completed'], single.text)
    // A proxy that is told to close would open a new connection for each request.
    assert.equal(single.headers.get('connection'), 'keep-alive')
    const batch = await parley.post(
      `${MESSAGES}/batches`,
      [job({ messages: [{ role: 'user', content: 'in a batch' }] })],
      key,
    )
    const read = await parley.get(`${MESSAGES}/${batch.body.data.job_ids[0]}?wait=10`, key)
    assert.equal(read.body.data.status, 'completed')

    // The listener has closed now. Requests on open connections are still answered, each as the connection's last one.
    models.script = () => reply.stall()
    const waiting = parley.post(MESSAGES, job({ messages: [{ role: 'user', content: 'stalls' }] }), key)
    await models.received(3)
    const [open, rejected] = [new Client(parley.url), new Client(parley.url)]
    t.after(() => Promise.all([open.destroy(), rejected.destroy()]))
    const getOn = async (client: Client, path: string) => {
      const { statusCode, headers, body } = await client.request({ method: 'GET', path })
      await body.dump()
      return [statusCode, headers.connection]
    }
    assert.deepEqual(await getOn(open, '/healthz'), [200, 'keep-alive'])
    assert.deepEqual(await getOn(rejected, '/nowhere'), [404, 'keep-alive'])
    clock.advance(LISTEN_MS)
    while (await isAccepted(parley.url)) {}
    assert.deepEqual(await getOn(open, '/healthz'), [200, 'close'])
    assert.deepEqual(await getOn(rejected, '/nowhere'), [404, 'close'])

    // Then the drain begins, and the request that waits for its job gets a 202.
    clock.advance(LAST_REQUESTS_MS)
    assert.equal((await waiting).status, 202)
    models.release()
    await stopped
  })

  test('a client that sends a large body to a stopping server gets its error, and is not reset', async (t) => {
    // As above, for a test that fails early.
    let stage: Stage | undefined
    t.after(() => stage?.clock.advance(LISTEN_MS + LAST_REQUESTS_MS))
    const settings = {
      shutdown: { listen_seconds: LISTEN_MS / 1000 },
      limits: { body_bytes: 1_000_000, rejections_per_second: 1_000_000 },
    }
    stage = await startStage(t, { settings })
    const { parley, models, clock } = stage
    models.script = () => reply.stall()
    const waiting = parley.post(MESSAGES, job(), await parley.key())
    await models.received(1)
    const { port, hostname } = new URL(parley.url)
    const heads = [
      [`POST ${MESSAGES} HTTP/1.1\r\nhost: parley\r\n`, 401],
      [
        `POST ${MESSAGES} HTTP/1.1\r\nhost: parley\r\nx-api-key: ${await parley.key()}\r\ncontent-type: application/json\r\n`,
        413,
      ],
    ] as const
    const sockets = heads.map(() => connect(Number(port), hostname))
    for (const socket of sockets) {
      socket.write('GET /healthz HTTP/1.1\r\nhost: parley\r\n\r\n')
      await once(socket, 'data')
    }
    const stopped = parley.stop()
    clock.advance(LISTEN_MS)
    while (await isAccepted(parley.url)) {}
    // So much is read while the clock stands still.
    const bytes = 1_900_000
    for (const [at, socket] of sockets.entries()) {
      const [head, status] = heads[at] ?? []
      socket.write(`${head}content-length: ${bytes}\r\n\r\n`)
      const [response] = await once(socket, 'data')
      assert.match(String(response), new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*connection: close`, 'i'))
      socket.resume().end(Buffer.alloc(bytes, 'x'))
      await finished(socket)
    }
    clock.advance(LAST_REQUESTS_MS)
    assert.equal((await waiting).status, 202)
    models.release()
    await stopped
  })

  test('without it, the listener closes at once', async (t) => {
    const { parley } = await startStage(t)
    const stopped = parley.stop()
    await assert.rejects(parley.get('/readyz'))
    await stopped
  })

  test('what was paid for before a stop is kept: the repair continues with the first answer', async (t) => {
    const schema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] }
    const before = await startStage(t)
    const { parley, models } = before
    models.script = () => (models.completions().length === 1 ? reply.json({ a: 'x' }) : reply.stall())
    const asked = job({ response_format: { format: 'json', schema } })
    const key = await parley.key()
    const [id = ''] = enqueued(await parley.post(`${MESSAGES}/batches`, [asked], key), 1)
    await models.received(2)
    await stopAtOnce(before)
    models.script = () => reply.json({ a: 1 })
    const after = (await startStage(t, { after: before })).parley
    const { result, usage } = granted(await after.get(`${MESSAGES}/${id}?include=usage&wait=10`, key), 200)
    assert.deepEqual([result.response_content, usage.calls], [{ a: 1 }, 3])
    const [first, , third] = models.completions()
    assert.equal(first?.body.messages.length, 1)
    assert.equal(third?.body.messages.at(-2)?.role, 'assistant')
  })
})
