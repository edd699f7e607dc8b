/**
 * Tests how the client waits for jobs of a server of version 0.2.0, which it must poll: patiently, within the limits, and
 * despite failures.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { ConnectionError, completed, NotFoundError, TimeoutError } from '../../client/src/index.ts'
import { FakeClock } from '../fake-clock.ts'
import { startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { clientOf, numbered, reasonOf, shareFaulty } from './client.ts'
import { type Fault, startFaultyProxy } from './faulty-proxy.ts'

onAnyStore(() => {
  const start = shareFaulty()

  /** The model server never answers the job, and the client meets a server of version 0.2.0. */
  async function stalledJob(t: TestContext) {
    const stage = await start(t, { client: { older: true } })
    const { parley, models, key } = stage
    models.script = () => reply.stall()
    const created = await parley.post('/api/v1/messages/batches', [job()], key)
    await models.received(1)
    return { ...stage, id: created.body.data.job_ids[0] as string }
  }

  test('reads become less and less frequent', async (t) => {
    const { models, client, proxy, clientClock, id } = await stalledJob(t)
    const waiting = client.messages.wait(id)
    await proxy.received(12)
    models.release()
    assert.deepEqual(completed(await waiting).result, { response_content: 'echo: Hello' })
    assert.deepEqual(
      clientClock.pauses.slice(0, 10).map(Math.round),
      [500, 750, 1125, 1688, 2531, 3797, 5695, 8543, 10000, 10000],
    )
  })

  test('the wait survives 429, outages and broken connections, and honors Retry-After', async (t) => {
    const { models, client, proxy, clientClock, id } = await stalledJob(t)
    const limited: Fault = { status: 429, headers: { 'retry-after': '41' } }
    const away: Fault = { status: 503, headers: { 'retry-after': '17' } }
    proxy.script('reset before', limited, away, 'reset after', { status: 502 }, 'cut the answer')
    const waiting = client.messages.wait(id, { maxRetries: 0 })
    await proxy.received(6)
    models.release()
    assert.equal((await waiting).status, 'completed')
    assert.deepEqual([clientClock.pauses[1], clientClock.pauses[2]], [41_000, 17_000])
  })

  test('a wait ends when the server has been gone for more than five minutes', async (t) => {
    const { client, proxy, clientClock, id } = await stalledJob(t)
    proxy.script(...Array.from({ length: 100 }, (): Fault => 'reset before'))
    await assert.rejects(client.messages.wait(id), ConnectionError)
    const tookMs = clientClock.nowMs()
    assert.ok(tookMs > 300_000 && tookMs < 330_000, String(tookMs))
  })

  test('a permanent error ends the wait at once', async (t) => {
    const { client, proxy } = await stalledJob(t)
    await assert.rejects(client.messages.wait('no-such-job'), NotFoundError)
    assert.equal(proxy.requests.length, 1)
  })

  test('a wait ends after its timeout, with the job ID', async (t) => {
    const { proxy, key, id } = await stalledJob(t)
    const clock = new FakeClock()
    const waiting = clientOf(proxy, key, { clock }).messages.wait(id, { timeout: 60 })
    await clock.timerSet((ms) => ms === 500)
    clock.advance(60_000)
    assert.equal((await reasonOf(waiting, TimeoutError)).jobId, id)
    assert.deepEqual(clock.pending(), [])
  })

  test("an abort ends a wait at any point, with the abort's reason", async (t) => {
    const { proxy, key, id } = await stalledJob(t)
    const clock = new FakeClock()
    const client = clientOf(proxy, key, { clock })
    const reason = new Error('enough')
    for (const wait of [
      (signal: AbortSignal) => client.messages.wait(id, { signal }),
      (signal: AbortSignal) => client.messages.waitAll([id, id], { signal }),
    ]) {
      const controller = new AbortController()
      const waiting = wait(controller.signal)
      await clock.timerSet((ms) => ms === 500)
      controller.abort(reason)
      await assert.rejects(waiting, reason)
      assert.deepEqual(clock.pending(), [])
    }
  })

  test("waitAll stays within the tier's reads per minute", async (t) => {
    const { parley, clock } = await startStage(t, {
      settings: { tiers: { user_go: { reads_per_minute: 12 } } },
    })
    // Time must not advance while a request is in progress, so that responses take no time.
    let inProgress = 0
    const fetched: typeof fetch = async (input, init) => {
      inProgress += 1
      try {
        const response = await fetch(input, init)
        return new Response(await response.text(), response)
      } finally {
        inProgress -= 1
      }
    }
    const older = await startFaultyProxy(t, parley.url, { older: true })
    const client = clientOf(older, await parley.key('user_go'), { clock, fetch: fetched })
    const statuses: number[] = []
    const onAnswer = ({ status }: { readonly status: number }) => void statuses.push(status)
    const ids = await client.messages.createBatch(numbered(40))
    const startMs = clock.steadyMs()
    let isDone = false
    const seen: number[] = []
    const all = client.messages
      .waitAll(ids, { onAnswer, onEnded: (_job, index) => void seen.push(index) })
      .finally(() => {
        isDone = true
      })
    while (!isDone) {
      await setImmediate()
      if (inProgress === 0) clock.advance(50)
    }
    assert.deepEqual(
      (await all).map((one) => one.job_id),
      ids,
    )
    assert.deepEqual(
      seen.toSorted((a, b) => a - b),
      [...ids.keys()],
    )
    // Older servers lack the route that waits. The client must try it only once.
    assert.deepEqual([statuses[0], new Set(statuses.slice(1))], [404, new Set([200])])
    // 40 reads take three minutes and a little more. The client must not wait much longer.
    const tookMs = clock.steadyMs() - startMs
    assert.ok(tookMs > 180_000 && tookMs < 240_000, String(tookMs))
  })

  test('waitAll ends with the first error, and leaves no request in progress', async (t) => {
    const { client, proxy, clientClock, id } = await stalledJob(t)
    await assert.rejects(client.messages.waitAll([id, 'no-such-job']), NotFoundError)
    const [requests, pauses] = [proxy.requests.length, clientClock.pauses.length]
    // The other job's pauses and requests take fewer turns than this, so they would have happened by now.
    for (let turn = 0; turn < 50; turn++) await setImmediate()
    await client.me()
    assert.deepEqual([proxy.requests.length, clientClock.pauses.length], [requests + 1, pauses])
    assert.deepEqual(await client.messages.waitAll([]), [])
  })
})
