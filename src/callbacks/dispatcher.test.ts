/** How callbacks are driven: to real receivers, out of a real store. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refusing, STALL, start } from '../../test/support/dispatcher-scene.ts'
import type { CallbackSummary } from '../store/callback-store.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

test('receivers that hang hold up neither others nor other accounts, however many they are', async (t) => {
  const reply = (host: string) => (host.endsWith('.250') ? ({ kind: 'answer' } as const) : STALL)
  const { courier, ended, owe, arrivedAt } = await start(t, { first: 64, reply })
  const hanging = Array.from({ length: 60 }, (_, index) => index + 2)
  for (const host of hanging) for (let n = 0; n < 3; n++) await owe(host)
  courier.wake('acme', '')
  const ids = await Promise.all(Array.from({ length: 10 }, () => owe(250, 'other')))
  for (const jobId of ids) courier.wake('other', jobId)
  await ended.when(() => ended.count('delivered') === ids.length)
  assert.deepEqual(ended.all.map(([jobId]) => jobId).sort(), ids.sort())
  const held = hanging.reduce((total, host) => total + arrivedAt(host), 0)
  assert.equal(held, 8, 'receivers of one account that never answered may hold an eighth of the places')
})

test('never more go to one receiver at once than it may be sent', async (t) => {
  const { courier, receiver, ended, owe } = await start(t, { perOrigin: 4, realTime: true })
  await Promise.all(Array.from({ length: 60 }, (_, n) => owe(1, n % 2 ? 'acme' : 'other')))
  courier.wake('acme', '')
  await ended.when(() => ended.count('delivered') === 60)
  assert.equal(receiver.requests.length, 60)
  const connections = receiver.connections()
  assert.ok(connections > 1 && connections <= 4, `${connections} connections`)
})

test('a callback under way is not sent twice when the clock jumps', async (t) => {
  const { courier, receiver, clock, ended, owe, store } = await start(t, { reply: () => STALL })
  const jobId = await owe()
  courier.begin()
  await receiver.received(1)
  clock.jump(HOUR_MS)
  const second = await owe(2)
  courier.wake('acme', '')
  await receiver.received(2)
  receiver.release()
  await ended.when(() => ended.count('delivered') === 2)
  assert.equal(receiver.requests.length, 2)
  const found = await store.findCallback(jobId)
  assert.deepEqual([found?.state, found?.attempts], ['delivered', 2])
  assert.equal((await store.findCallback(second))?.attempts, 1)
})

test('what a stop cuts off is due at once and does not count; what waited was not tried', async (t) => {
  const { courier, receiver, clock, ended, owe, store } = await start(t, { reply: () => STALL, pausesS: [0] })
  const ids = [await owe(), await owe(), await owe()]
  courier.wake('acme', '')
  await receiver.received(2)
  const stopped = courier.stop()
  await clock.timerSet((ms) => ms === 5000)
  clock.advance(5000)
  await stopped
  assert.deepEqual(
    ended.all.map((one) => one[1]),
    ['due', 'due'],
  )
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

test('a callback whose record the database refuses is recorded when it can be, and not sent again', async (t) => {
  let refusals = 3
  const { courier, receiver, clock, ended, owe } = await start(t, {
    wrap: (store) => refusing(store, 'recordCallback', () => refusals-- > 0),
  })
  await owe()
  courier.wake('acme', '')
  for (let pauseMs = 100; refusals > 0; pauseMs *= 2) {
    await clock.timerSet((ms) => ms === pauseMs)
    clock.advance(pauseMs)
  }
  await ended.when(() => ended.count('delivered') === 1)
  assert.equal(receiver.requests.length, 1)
})

test('what found no place at a receiver comes back by itself', async (t) => {
  const { courier, ended, owe, receiver } = await start(t, { first: 8, perOrigin: 1, realTime: true })
  await Promise.all(Array.from({ length: 30 }, () => owe()))
  courier.wake('acme', '')
  await ended.when(() => ended.all.length >= 30)
  assert.equal(receiver.requests.length, 30)
  assert.equal(ended.count('delivered'), 30)
})

test('a callback that has waited for longer than all its attempts ends, where its receiver fails', async (t) => {
  let requests = 0
  const { courier, clock, receiver, ended, owe, store } = await start(t, {
    pausesS: [0, 5],
    reply: () => (++requests <= 2 ? { kind: 'answer', status: 503 } : STALL),
  })
  for (let made = 0; made < 40; made++) await owe(1, 'acme', 2 * DAY_MS)
  courier.wake('acme', '')
  // Two have failed, and two more hold all the places that the receiver has now.
  await receiver.received(4)
  const isPostponed = ({ attempts, dueAtMs }: CallbackSummary) =>
    attempts === 0 && Number(dueAtMs) > clock.nowMs()
  for (let postponed = 0; postponed < 36; ) {
    postponed = (await store.searchCallbacks({ state: 'owed', limit: 100 })).items.filter(isPostponed).length
  }
  clock.jump(HOUR_MS)
  courier.begin()
  await ended.when(() => ended.count('failed') === 36)
  const [jobId = '', , error] = ended.all.find(([, next]) => next === 'failed') ?? []
  assert.match(String(error), /^not tried again: the receiver fails/)
  const found = await store.findCallback(jobId)
  assert.deepEqual([found?.state, found?.last?.error], ['failed', error])
})

test('a receiver that is back gets what has waited for it, without delay', async (t) => {
  let isDown = true
  const { courier, ended, owe } = await start(t, {
    reply: () => ({ kind: 'answer', status: isDown ? 503 : 200 }),
    realTime: true,
    pausesS: [0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
  })
  for (let made = 0; made < 300; made++) await owe()
  courier.begin()
  await ended.when(() => ended.count('due') >= 20)
  isDown = false
  await ended.when(() => ended.count('delivered') === 300)
  assert.equal(ended.count('failed'), 0)
})

test('an account whose receivers are slow leaves places for others', async (t) => {
  const reply = (host: string) => (host.endsWith('.250') ? ({ kind: 'answer' } as const) : STALL)
  const { courier, clock, ended, owe, receiver } = await start(t, { first: 16, perOrigin: 16, reply })
  // Proven first, so that nothing but the last places is kept from it.
  for (let round = 0, sent = 0; round < 4; round++) {
    for (let n = 0; n < 16; n++) await owe()
    courier.wake('acme', '')
    await receiver.received(sent + 2)
    while (ended.all.length < sent + 16) {
      receiver.release()
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
    sent += 16
  }
  const before = receiver.requests.length
  for (let n = 0; n < 40; n++) await owe()
  courier.wake('acme', '')
  await receiver.received(before + 14)
  const known = ended.all.length
  const others = [await owe(250, 'other')]
  // One that has just become due overtakes; another one is found behind those that wait, once the places do not get free.
  courier.wake('other', others[0] ?? '')
  await ended.when(() => ended.all.length === known + 1)
  others.push(await owe(250, 'other'))
  courier.begin()
  clock.advance(1000)
  await ended.when(() => ended.all.length === known + 2)
  assert.deepEqual(
    ended.all.slice(known).map(([jobId]) => jobId),
    others,
  )
})
