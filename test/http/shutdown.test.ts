/** Tests a shutdown behind a load balancer: `/readyz` reports it first, and the listener closes last. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { Client } from 'undici'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { callerOf, says, startScene } from './caller.ts'
import { completed, granted, refused, timedOut } from './expect.ts'
import { type Stage, startStage, stopAtOnce } from './stage.ts'

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
    const caller = await callerOf(parley)
    granted(await parley.get('/readyz'), 200)
    const stopped = parley.stop()

    refused(await parley.get('/readyz'), 503)
    granted(await parley.get('/healthz'), 200)
    const single = await caller.create()
    completed(single)
    // A proxy that is told to close would open a new connection for each request.
    assert.equal(single.headers.get('connection'), 'keep-alive')
    const [id] = await caller.enqueue([says('in a batch')])
    completed(await caller.read(id, '?wait=10'))

    // The listener has closed now. Requests on open connections are still answered, each as the connection's last one.
    models.script = () => reply.stall()
    const waiting = caller.ask('stalls')
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
    timedOut(await waiting)
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
    const before = await startScene(t)
    const { caller, models } = before
    models.script = () => (models.completions().length === 1 ? reply.json({ a: 'x' }) : reply.stall())
    const id = await caller.enqueueOne({ response_format: { format: 'json', schema } })
    await models.received(2)
    await stopAtOnce(before)
    models.script = () => reply.json({ a: 1 })
    const next = caller.at((await startStage(t, { after: before })).parley)
    const { result, usage } = granted(await next.read(id, '?include=usage&wait=10'), 200)
    assert.deepEqual([result.response_content, usage.calls], [{ a: 1 }, 3])
    const [first, , third] = models.completions()
    assert.equal(first?.body.messages.length, 1)
    assert.equal(third?.body.messages.at(-2)?.role, 'assistant')
  })
})
