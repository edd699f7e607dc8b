/** The callback dispatcher with large bodies: they are loaded late, and within a budget. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instead, refusing, STALL, start } from '../../test/support/dispatcher-scene.ts'

/** After which a delivery that waits for bytes is released. */
const BYTES_WAIT_MS = 15_000
const MIB = 1024 * 1024

test('bodies in memory are bounded; deliveries that wait for bytes are not lost and do not delay small ones', async (t) => {
  const large = 'x'.repeat(MIB)
  const { dispatcher, receiver, ended, owe, store } = await start(t, {
    maxBodyBytes: 5 * MIB,
    reply: (host) => (host.endsWith('.250') ? { kind: 'answer' } : STALL),
  })
  const ids: string[] = []
  for (let host = 2; host <= 9; host++) ids.push(await owe(host, 'acme', 0, large))
  dispatcher.notify('acme', '')
  await receiver.received(2)
  const small = await owe(250, 'other')
  dispatcher.notify('other', small)
  await ended.when(() => ended.count('delivered') === 1)
  assert.equal(receiver.requests.length, 3, 'one account may hold half of the bytes')
  while (ended.count('delivered') < 1 + ids.length) {
    receiver.release()
    await new Promise<void>((resolve) => setImmediate(resolve))
  }
  assert.deepEqual(ended.all.map(([jobId]) => jobId).sort(), [...ids, small].sort())
  assert.equal(receiver.requests.length, 9, 'each is sent once')
  for (const jobId of ids) assert.equal((await store.findCallback(jobId))?.attempts, 1)
})

test('a delivery that waits for bytes is released untried when it has waited for long and when the dispatcher stops', async (t) => {
  const { dispatcher, receiver, clock, owe, store } = await start(t, {
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
  const { dispatcher, clock, ended, owe, store } = await start(t, {
    wrap: (store) => refusing(store, 'loadCallback', () => refusals-- > 0),
  })
  const jobId = await owe()
  dispatcher.notify('acme', '')
  for (let pauseMs = 100; refusals > 0; pauseMs *= 2) {
    await clock.timerSet((ms) => ms === pauseMs)
    clock.advance(pauseMs)
  }
  await ended.when(() => ended.count('delivered') === 1)
  assert.equal((await store.findCallback(jobId))?.attempts, 1)
})

test('a callback whose job is deleted before its body is loaded is not sent', async (t) => {
  const loading = Promise.withResolvers<void>()
  const deleted = Promise.withResolvers<void>()
  const { dispatcher, receiver, owe, store } = await start(t, {
    wrap: (store) =>
      instead(store, 'loadCallback', async (callback) => {
        loading.resolve()
        await deleted.promise
        return store.loadCallback(callback)
      }),
  })
  const jobId = await owe()
  dispatcher.notify('acme', '')
  await loading.promise
  await store.deleteJob(jobId)
  deleted.resolve()
  await dispatcher.stop()
  assert.equal(receiver.requests.length, 0)
})
