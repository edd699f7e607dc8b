/** Tests the callback dispatcher with real receivers and a real store. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ReceivedRequest, ReceiverReply } from '../../test/receiver.ts'
import { instead, refusing, STALL, start } from '../../test/support/dispatcher-scene.ts'
import type { CallbackSummary } from '../store/callback-store.ts'
import { type Store, StoreUnavailable } from '../store/store.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

test('receivers that hang delay neither other receivers nor other accounts, however many they are', async (t) => {
  const reply = (host: string) => (host.endsWith('.250') ? ({ kind: 'answer' } as const) : STALL)
  const { dispatcher, ended, arrivedAt, oweSeveral, oweNow } = await start(t, { first: 64, reply })
  const hanging = Array.from({ length: 30 }, (_, index) => index + 2)
  for (const host of hanging) await oweNow(2, host)
  const ids = await oweSeveral(10, 250, 'other')
  for (const jobId of ids) dispatcher.notify('other', jobId)
  await ended.delivered(ids.length)
  assert.deepEqual(ended.all.map(([jobId]) => jobId).sort(), ids.sort())
  const occupied = hanging.reduce((total, host) => total + arrivedAt(host), 0)
  assert.equal(occupied, 8, 'receivers of one account that are not proven occupy an eighth of the slots')
})

test('an origin never gets more attempts at once than the setting allows', async (t) => {
  const { receiver, ended, oweNow } = await start(t, { perOrigin: 4, realTime: true })
  for (const account of ['acme', 'other']) await oweNow(30, 1, account)
  await ended.delivered(60)
  assert.equal(receiver.requests.length, 60)
  const connections = receiver.connections()
  assert.ok(connections > 1 && connections <= 4, `${connections} connections`)
})

test('callbacks of one account to a slow origin do not delay those of another to the same origin', async (t) => {
  const slow = new Set<string>()
  const reply = (_host: string, { body }: ReceivedRequest): ReceiverReply =>
    slow.has(JSON.parse(body).job_id) ? STALL : { kind: 'answer' }
  const { dispatcher, receiver, ended, owe, oweNow } = await start(t, { perOrigin: 8, reply })
  await oweNow(16)
  await ended.delivered(16)
  for (const jobId of await oweNow(16)) slow.add(jobId)
  await receiver.received(16 + 7)
  const jobId = await owe(1, 'other')
  dispatcher.notify('other', jobId)
  await ended.delivered(17)
  assert.equal(ended.all.at(-1)?.[0], jobId)
})

test('a callback of a deleted account fails permanently without an attempt', async (t) => {
  const wrap = (store: Store) =>
    instead(store, 'loadCallback', async (one) => {
      const body = await store.loadCallback(one)
      return body && { ...body, secrets: null }
    })
  const { dispatcher, receiver, ended, store, owe } = await start(t, { wrap })
  const jobId = await owe()
  dispatcher.notify('acme', jobId)
  await ended.next(1, 'failed')
  const found = await store.findCallback(jobId)
  assert.equal(found?.state, 'failed')
  assert.match(found.last?.error ?? '', /the account of the job no longer exists/)
  assert.equal(receiver.requests.length, 0)
})

test('a callback in flight is not sent twice when the clock jumps', async (t) => {
  const { dispatcher, receiver, clock, ended, store, owe } = await start(t, { reply: () => STALL })
  const jobId = await owe()
  dispatcher.start()
  await receiver.received(1)
  clock.jump(HOUR_MS)
  const second = await owe(2)
  dispatcher.notify('acme', '')
  await receiver.received(2)
  receiver.release()
  await ended.delivered(2)
  assert.equal(receiver.requests.length, 2)
  const found = await store.findCallback(jobId)
  assert.deepEqual([found?.state, found?.attempts], ['delivered', 2])
  assert.equal((await store.findCallback(second))?.attempts, 1)
})

test('attempts that a stop cuts off are due at once and do not count, and deliveries that wait stay untried', async (t) => {
  const { dispatcher, receiver, clock, ended, store, oweNow } = await start(t, {
    reply: () => STALL,
    pausesS: [0],
  })
  const ids = await oweNow(3)
  await receiver.received(2)
  const stopped = dispatcher.stop()
  await clock.timerSet((ms) => ms === 5000)
  clock.advance(5000)
  await stopped
  assert.deepEqual(ended.nexts, ['due', 'due'])
  const take = { node: 'node-b', limit: 10, nowMs: clock.nowMs(), leaseUntilMs: clock.nowMs() }
  const cutOff = await store.takeCallbacks({ ...take, queue: 'retry' })
  assert.deepEqual(
    cutOff.map(({ attempt, tries }) => [attempt, tries]),
    [
      [2, 1],
      [2, 1],
    ],
  )
  const waited = await store.takeCallbacks({ ...take, queue: 'first' })
  assert.deepEqual(
    waited.map(({ jobId, attempt }) => [ids.includes(jobId), attempt]),
    [[true, 1]],
  )
})

test('attempts in progress may end though a stop cannot return the deliveries that wait', async (t) => {
  const unavailable = Promise.withResolvers<void>()
  const { dispatcher, receiver, ended, errors, oweNow } = await start(t, {
    reply: () => STALL,
    wrap: (store) =>
      instead(store, 'deferCallbacks', async () => {
        unavailable.resolve()
        throw new StoreUnavailable('full')
      }),
  })
  await oweNow(3)
  await receiver.received(2)
  const stopped = dispatcher.stop()
  await unavailable.promise
  await nextTurn()
  receiver.release()
  await stopped
  assert.deepEqual(ended.nexts, ['delivered', 'delivered'])
  assert.deepEqual(errors.map(String), ['StoreUnavailable: full'])
})

test('an attempt that the database cannot record is recorded later, and the callback is not sent again', async (t) => {
  let refusals = 3
  const { receiver, clock, ended, oweNow } = await start(t, {
    wrap: (store) => refusing(store, 'recordCallback', () => refusals-- > 0),
  })
  await oweNow(1)
  for (let pauseMs = 100; refusals > 0; pauseMs *= 2) {
    await clock.timerSet((ms) => ms === pauseMs)
    clock.advance(pauseMs)
  }
  await ended.delivered(1)
  assert.equal(receiver.requests.length, 1)
})

test('retries have slots of their own number', async (t) => {
  let requests = 0
  const reply = () => (++requests <= 8 ? ({ kind: 'answer', status: 500 } as const) : STALL)
  const { dispatcher, receiver, ended, owe } = await start(t, { retry: 1, pausesS: [0, 0, 0], reply })
  for (let host = 2; host < 10; host++) await owe(host)
  dispatcher.notify('acme', '')
  await ended.next(8, 'due')
  dispatcher.start()
  await receiver.received(9)
  assert.deepEqual(dispatcher.inFlight, { first: 0, retry: 1 })
})

test('a replayed callback has all attempts of the schedule again', async (t) => {
  const { dispatcher, clock, ended, store, owe } = await start(t, {
    pausesS: [0, 0],
    reply: () => ({ kind: 'answer', status: 500 }),
  })
  const jobId = await owe()
  dispatcher.start()
  for (let attempts = 1; attempts <= 4; attempts++) {
    await ended.when(() => ended.all.length === attempts)
    if (attempts === 2) await store.replayCallback(jobId, { nowMs: clock.nowMs(), retentionMs: DAY_MS })
    clock.advance(1000)
  }
  assert.deepEqual(ended.nexts, ['due', 'failed', 'due', 'failed'])
  assert.equal((await store.findCallback(jobId))?.attempts, 4)
})

test('deliveries that wait for a receiver which begins to fail are deferred for long', async (t) => {
  let requests = 0
  const reply = () => {
    requests += 1
    if (requests === 1) return { kind: 'answer' } as const
    return requests <= 4 ? ({ kind: 'answer', status: 503 } as const) : STALL
  }
  const { dispatcher, clock, ended, store, owe, oweNow } = await start(t, { reply })
  dispatcher.notify('acme', await owe())
  await ended.delivered(1)
  await oweNow(8)
  await ended.next(3, 'due')
  // Three deliveries have failed, and two occupy all the capacity that the receiver has now.
  let untried: CallbackSummary[] = []
  while (untried.length < 3) {
    const { items } = await store.searchCallbacks({ state: 'owed', limit: 100 })
    untried = items.filter(({ attempts, dueAtMs }) => attempts === 0 && dueAtMs !== null)
  }
  const later = clock.nowMs() + 600_000
  assert.deepEqual(
    untried.map(({ dueAtMs }) => dueAtMs),
    [later, later, later],
  )
})

test('deliveries that find no capacity at their receiver are sent when it has some', async (t) => {
  const { ended, receiver, oweNow } = await start(t, {
    first: 8,
    perOrigin: 1,
    realTime: true,
  })
  await oweNow(30)
  await ended.when(() => ended.all.length >= 30)
  assert.equal(receiver.requests.length, 30)
  assert.equal(ended.count('delivered'), 30)
})

test('a delivery that waits is sent at once when those before it turn out to be gone', async (t) => {
  const deleted = Promise.withResolvers<void>()
  let loads = 0
  const { ended, oweNow } = await start(t, {
    wrap: (store) =>
      instead(store, 'loadCallback', async (callback) => {
        if (++loads > 2) return store.loadCallback(callback)
        await deleted.promise
        return null
      }),
  })
  // A new receiver has capacity for two deliveries, so the third one waits.
  await oweNow(3)
  while (loads < 2) await nextTurn()
  deleted.resolve()
  await ended.delivered(1)
})

test('a callback owed for longer than its schedule takes fails when its receiver fails', async (t) => {
  let requests = 0
  const { dispatcher, clock, receiver, ended, store, oweNow } = await start(t, {
    pausesS: [0, 5],
    reply: () => (++requests <= 2 ? { kind: 'answer', status: 503 } : STALL),
  })
  await oweNow(40, 1, 'acme', 2 * DAY_MS)
  // Two deliveries have failed, and two more occupy all the capacity that the receiver has now.
  await receiver.received(4)
  const isDeferred = ({ attempts, dueAtMs }: CallbackSummary) =>
    attempts === 0 && Number(dueAtMs) > clock.nowMs()
  for (let deferred = 0; deferred < 36; ) {
    deferred = (await store.searchCallbacks({ state: 'owed', limit: 100 })).items.filter(isDeferred).length
  }
  clock.jump(HOUR_MS)
  dispatcher.start()
  await ended.next(36, 'failed')
  const [jobId = '', , error] = ended.all.find(([, next]) => next === 'failed') ?? []
  assert.match(String(error), /^not retried: the receiver is failing/)
  const found = await store.findCallback(jobId)
  assert.deepEqual([found?.state, found?.last?.error], ['failed', error])
})

test('a receiver that has recovered gets its deferred deliveries without delay', async (t) => {
  let isDown = true
  const { dispatcher, ended, oweSeveral } = await start(t, {
    reply: () => ({ kind: 'answer', status: isDown ? 503 : 200 }),
    realTime: true,
    pausesS: [0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
  })
  await oweSeveral(120)
  dispatcher.start()
  await ended.when(() => ended.count('due') >= 20)
  isDown = false
  await ended.delivered(120)
  assert.equal(ended.count('failed'), 0)
})

test('an account whose receivers are slow leaves slots for others', async (t) => {
  const reply = (host: string) => (host.endsWith('.250') ? ({ kind: 'answer' } as const) : STALL)
  const { dispatcher, clock, ended, receiver, owe, oweNow } = await start(t, {
    first: 16,
    perOrigin: 16,
    reply,
  })
  // The receiver is proven first, so that the account lacks only the reserved slots.
  for (let round = 0, sent = 0; round < 4; round++) {
    await oweNow(16)
    await receiver.received(sent + 2)
    while (ended.all.length < sent + 16) {
      receiver.release()
      await nextTurn()
    }
    sent += 16
  }
  const before = receiver.requests.length
  await oweNow(40)
  await receiver.received(before + 14)
  const known = ended.all.length
  const others = [await owe(250, 'other')]
  // `notify` lets the first callback overtake. The next poll finds the second one behind those that wait.
  dispatcher.notify('other', others[0] ?? '')
  await ended.when(() => ended.all.length === known + 1)
  others.push(await owe(250, 'other'))
  dispatcher.start()
  clock.advance(1000)
  await ended.when(() => ended.all.length === known + 2)
  assert.deepEqual(
    ended.all.slice(known).map(([jobId]) => jobId),
    others,
  )
})
