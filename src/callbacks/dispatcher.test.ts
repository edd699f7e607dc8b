/** How callbacks are driven: to real receivers, out of a real store. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { type ReceivedRequest, type ReceiverReply, startReceiver } from '../../test/receiver.ts'
import { acceptance, newJob, settlement } from '../../test/store-contract/fixtures.ts'
import { ALLOW_LOOPBACK, IDLE_LIMITS } from '../../test/support/poster.ts'
import { systemClock } from '../clock.ts'
import { createPoster } from '../net/post.ts'
import type { CallbackSummary } from '../store/callback-store.ts'
import { openSqliteStore } from '../store/sqlite/sqlite-store.ts'
import { type Store, StoreUnavailable } from '../store/store.ts'
import { CallbackDispatcher } from './dispatcher.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const TIMEOUT_MS = 15_000
/** After which a stopping courier cuts off what is under way. */
const STOP_GRACE_MS = 5000
const STALL: ReceiverReply = { kind: 'stall' }

interface StartOptions {
  readonly first?: number
  readonly perOrigin?: number
  readonly pausesS?: readonly number[]
  /** By the host of the request: 127.0.0.1, 127.0.0.2 and so on are receivers of their own. */
  readonly reply?: (host: string, request: ReceivedRequest) => ReceiverReply
  readonly wrap?: (store: Store) => Store
  /** For what comes back by itself after a moment. */
  readonly realTime?: boolean
}

async function start(t: TestContext, options: StartOptions = {}) {
  const { first = 64, perOrigin = 8, pausesS = [0, 5, 60], reply, wrap = (store) => store } = options
  const folder = await mkdtemp(join(tmpdir(), 'parley-courier-'))
  const fake = new FakeClock()
  const clock = options.realTime ? systemClock : fake
  const onFatal = (error: Error) => {
    throw error
  }
  const path = join(folder, 'parley.db')
  const store = await openSqliteStore({ path, maxQueued: 10_000, nowMs: () => clock.nowMs(), onFatal })
  const hostOf = ({ headers }: ReceivedRequest) => String(headers.host).split(':')[0] ?? ''
  const receiver = await startReceiver({
    host: '0.0.0.0',
    reply: (request) => reply?.(hostOf(request), request) ?? { kind: 'answer' },
  })
  const ended = new Ended()
  const courier = new CallbackDispatcher({
    store: wrap(store),
    node: 'node-a',
    poster: createPoster({ rules: ALLOW_LOOPBACK, timeoutMs: TIMEOUT_MS, idle: IDLE_LIMITS, clock }),
    clock,
    random: () => 0.5,
    timeoutMs: TIMEOUT_MS,
    pausesS,
    places: { first, retry: first },
    placesPerOrigin: perOrigin,
    events: {
      attempted: ({ view }, { error }, next) => ended.add([view.id, next, error]),
      trouble: () => {},
    },
  })
  t.after(async () => {
    const stopped = courier.stop()
    fake.advance(STOP_GRACE_MS)
    await stopped
    await receiver.close()
    await store.close()
    await rm(folder, { recursive: true })
  })
  for (const account of ['acme', 'other']) await makeAccount(store, account)

  /** Stores a job that has ended and owes a callback to the receiver of that number. */
  async function owe(host = 1, account = 'acme', agoMs = 0): Promise<string> {
    const url = `http://127.0.0.${host}:${receiver.port}/hook`
    const nowMs = clock.nowMs() - agoMs
    const job = newJob({ account, callback: { url, headers: {}, payloadJson: '{}' }, createdAtMs: nowMs })
    await store.accept(acceptance([job], { handedOff: true }))
    await store.settle(settlement({ jobId: job.id, attempt: 1 }, { nowMs }))
    return job.id
  }
  const arrivedAt = (host: number) =>
    receiver.requests.filter((one) => hostOf(one) === `127.0.0.${host}`).length
  return { store, courier, clock: fake, receiver, ended, owe, arrivedAt }
}

/** What became of attempts, in order; can be awaited. */
class Ended {
  readonly all: [jobId: string, next: string, error: string | null][] = []
  #waiting: (() => void)[] = []

  add(one: [string, string, string | null]): void {
    this.all.push(one)
    for (const look of this.#waiting) look()
  }

  async when(holds: () => boolean): Promise<void> {
    if (holds()) return
    await new Promise<void>((resolve) => this.#waiting.push(() => holds() && resolve()))
  }

  count(next: string): number {
    return this.all.filter((one) => one[1] === next).length
  }
}

async function makeAccount(store: Store, account: string): Promise<void> {
  await store.createKey({
    id: `key-${account}`,
    hash: account,
    account,
    tier: 'user_max',
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    createdAtMs: 0,
    expiresAtMs: null,
  })
}

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
    waited.map(({ view, attempt }) => [ids.includes(view.id), attempt]),
    [[true, 1]],
  )
})

test('a callback whose record the database refuses is recorded when it can be, and not sent again', async (t) => {
  let refusals = 3
  const { courier, receiver, clock, ended, owe } = await start(t, {
    wrap: (store) =>
      new Proxy(store, {
        get(target, name) {
          const value = Reflect.get(target, name)
          if (name !== 'recordCallback') return typeof value === 'function' ? value.bind(target) : value
          return (...args: Parameters<Store['recordCallback']>) =>
            refusals-- > 0 ? Promise.reject(new StoreUnavailable('full')) : target.recordCallback(...args)
        },
      }),
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
    postponed = (await store.searchCallbacks({ state: 'owed', limit: 100 })).found.filter(isPostponed).length
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
