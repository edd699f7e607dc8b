/** Tests the callback dispatcher with large bodies, which are loaded late and within a budget. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { instead, refusing, STALL, start } from '../../test/support/dispatcher-scene.ts'

/** After waiting for memory for this long, a delivery is returned to the store. */
const BYTES_WAIT_MS = 15_000
const MIB = 1024 * 1024

test('bodies in memory are bounded; deliveries that wait for bytes are not lost and do not delay small ones', async (t) => {
  const large = 'x'.repeat(MIB)
  const { dispatcher, receiver, ended, store, owe } = await start(t, {
    maxBodyBytes: 5 * MIB,
    reply: (host) => (host.endsWith('.250') ? { kind: 'answer' } : STALL),
  })
  const ids: string[] = []
  for (let host = 2; host <= 9; host++) ids.push(await owe(host, 'acme', 0, large))
  dispatcher.notify('acme', '')
  await receiver.received(2)
  const small = await owe(250, 'other')
  dispatcher.notify('other', small)
  await ended.delivered(1)
  assert.equal(receiver.requests.length, 3, 'one account may hold half of the bytes')
  while (ended.count('delivered') < 1 + ids.length) {
    receiver.release()
    await nextTurn()
  }
  assert.deepEqual(ended.all.map(([jobId]) => jobId).sort(), [...ids, small].sort())
  assert.equal(receiver.requests.length, 9, 'each is sent once')
  for (const jobId of ids) assert.equal((await store.findCallback(jobId))?.attempts, 1)
})

test('a delivery that waits for bytes is released untried when it has waited for long and when the dispatcher stops', async (t) => {
  const { dispatcher, receiver, clock, store, owe } = await start(t, {
    maxBodyBytes: MIB,
    timeoutMs: 60_000,
    reply: () => STALL,
  })
  const large = 'x'.repeat(MIB)
  await owe(2, 'acme', 0, large)
  const waits = await owe(3, 'acme', 0, large)
  dispatcher.notify('acme', '')
  await receiver.received(1)
  const stateOf = async (jobId: string) => {
    const { attempts, dueAtMs } = (await store.findCallback(jobId)) ?? {}
    return [attempts, dueAtMs]
  }
  assert.deepEqual(await stateOf(waits), [1, null])
  clock.advance(BYTES_WAIT_MS)
  const releasedAtMs = clock.nowMs()
  while ((await stateOf(waits))[1] === null) t.signal.throwIfAborted()
  assert.deepEqual(await stateOf(waits), [0, releasedAtMs])
  const waitsToo = await owe(4, 'other', 0, large)
  dispatcher.notify('other', waitsToo)
  while ((await stateOf(waitsToo))[0] === 0) t.signal.throwIfAborted()
  const stopped = dispatcher.stop()
  while ((await stateOf(waitsToo))[0] === 1) t.signal.throwIfAborted()
  assert.deepEqual(await stateOf(waitsToo), [0, releasedAtMs])
  receiver.release()
  await stopped
  assert.equal(receiver.requests.length, 1)
})

test('a body that the database cannot load is loaded later, under the same attempt', async (t) => {
  let refusals = 3
  const { clock, ended, store, oweNow } = await start(t, {
    wrap: (store) => refusing(store, 'loadCallback', () => refusals-- > 0),
  })
  const [jobId = ''] = await oweNow(1)
  for (let pauseMs = 100; refusals > 0; pauseMs *= 2) {
    await clock.timerSet((ms) => ms === pauseMs)
    clock.advance(pauseMs)
  }
  await ended.delivered(1)
  assert.equal((await store.findCallback(jobId))?.attempts, 1)
})

test('a callback that is claimed again while its body is loaded is sent, once', async (t) => {
  const loading = Promise.withResolvers<void>()
  const claimedAgain = Promise.withResolvers<void>()
  let loads = 0
  const { dispatcher, receiver, clock, ended, store, owe } = await start(t, {
    wrap: (store) =>
      instead(store, 'loadCallback', async (callback) => {
        if (++loads === 1) {
          loading.resolve()
          await claimedAgain.promise
        }
        return store.loadCallback(callback)
      }),
  })
  const jobId = await owe()
  dispatcher.start()
  await loading.promise
  clock.jump(3_600_000)
  clock.advance(1000)
  while ((await store.findCallback(jobId))?.attempts !== 2) t.signal.throwIfAborted()
  claimedAgain.resolve()
  // The delivery is returned to the store, and the next poll takes it.
  while ((await store.findCallback(jobId))?.attempts === 2) t.signal.throwIfAborted()
  clock.advance(1000)
  await ended.delivered(1)
  assert.equal((await store.findCallback(jobId))?.attempts, 2)
  assert.equal(receiver.requests.length, 1)
})

test('the lease of a callback outlasts the wait for bytes and the attempt', async (t) => {
  const timeoutMs = 60_000
  const { dispatcher, receiver, clock, store, owe } = await start(t, { timeoutMs, reply: () => STALL })
  const jobId = await owe()
  dispatcher.notify('acme', jobId)
  await receiver.received(1)
  const claimAfter = async (ms: number) => {
    const nowMs = clock.nowMs() + ms
    const claim = { node: 'node-a', queue: 'first', limit: 1, nowMs, leaseUntilMs: nowMs } as const
    return (await store.takeCallbacks(claim)).length
  }
  assert.equal(await claimAfter(BYTES_WAIT_MS + timeoutMs), 0)
  assert.equal(await claimAfter(2 * BYTES_WAIT_MS + timeoutMs), 1)
})

test('a stop waits for no database that cannot load bodies', async (t) => {
  const { dispatcher, receiver, clock, store, owe } = await start(t, {
    wrap: (store) => refusing(store, 'loadCallback', () => true),
  })
  const jobId = await owe()
  dispatcher.notify('acme', jobId)
  await clock.timerSet((ms) => ms === 100)
  const stopped = dispatcher.stop()
  clock.advance(100)
  await stopped
  assert.equal(receiver.requests.length, 0)
  assert.equal((await store.findCallback(jobId))?.attempts, 0)
})

test('a callback whose job is deleted before its body is loaded is not sent', async (t) => {
  const loading = Promise.withResolvers<void>()
  const deleted = Promise.withResolvers<void>()
  const { dispatcher, receiver, store, oweNow } = await start(t, {
    wrap: (store) =>
      instead(store, 'loadCallback', async (callback) => {
        loading.resolve()
        await deleted.promise
        return store.loadCallback(callback)
      }),
  })
  const [jobId = ''] = await oweNow(1)
  await loading.promise
  await store.deleteJob(jobId)
  deleted.resolve()
  await dispatcher.stop()
  assert.equal(receiver.requests.length, 0)
})
