/** Tests the order of the requests that wait for a rate. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { Stop } from '../job/stop.ts'
import { type NodeAsk, ownBook, Rate, type RateBook, type RateRequest, Reservation } from './rate.ts'
import { type Amounts, exchange, newRateState } from './rate-window.ts'

const LIMITS = { requests: 1000, tokens: 6000 }

/** A book that grants everything, and records what it was asked. */
function recordingBook() {
  const asks: NodeAsk[] = []
  const book: RateBook = {
    isOn: () => true,
    isShared: false,
    exchange: (_limits, ask) => {
      asks.push(ask)
      return { ...ask.needs, retryMs: 0, isSame: false }
    },
  }
  return { asks, book }
}

function open(clock: FakeClock, book: RateBook) {
  const rate = new Rate(LIMITS, book, clock)
  const sent: string[] = []
  const ask = (name: string, over: Partial<RateRequest> = {}, stop = new Stop()) => {
    const got = rate.reserve({ account: 'acme', weight: 1, tokens: 100, ...over }, stop)
    void Promise.resolve(got).then((reservation) => {
      if (reservation === null) return
      reservation.sent(clock.steadyMs())
      sent.push(name)
    })
  }
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      clock.advance(1000)
      for (let turns = 0; turns < 6; turns++) await setImmediate()
    }
  }
  return { rate, sent, ask, pass, clock }
}

/** Creates a rate with nothing left to send at once. */
function start() {
  const clock = new FakeClock()
  const opened = open(clock, ownBook(clock))
  opened.ask('first', { tokens: 1100 })
  return opened
}

/** Two nodes share the rate. The first has been granted more than it has sent. */
async function startTwo() {
  const clock = new FakeClock()
  const state = newRateState(clock.steadyMs())
  const counts = { exchanges: 0 }
  const asks: NodeAsk[] = []
  const bookOf = (node: string): RateBook => ({
    isOn: () => true,
    isShared: true,
    exchange: async (limits, ask) => {
      counts.exchanges += 1
      if (node === 'one') asks.push(ask)
      await setImmediate()
      return exchange(state, limits, { node, ...ask }, clock.steadyMs())
    },
  })
  const [one, other] = [open(clock, bookOf('one')), open(clock, bookOf('other'))]
  for (let n = 0; n < 4; n++) one.ask('small')
  await one.pass(1)
  return { one, other, counts, asks }
}

test('accounts take turns by tokens and weight', async () => {
  const { sent, ask, pass } = start()
  for (let n = 0; n < 40; n++) ask('acme')
  for (let n = 0; n < 40; n++) ask('heavy', { account: 'heavy', weight: 2 })
  for (let n = 0; n < 40; n++) ask('large', { account: 'large', tokens: 200 })
  await pass(40)
  const count = (name: string) => sent.filter((one) => one === name).length
  assert.ok(Math.abs(count('heavy') - 2 * count('acme')) <= 3, String(sent))
  assert.ok(Math.abs(count('acme') - 2 * count('large')) <= 3, String(sent))
})

test('higher priorities go first, and the one that is next already is not overtaken', async () => {
  const { sent, ask, pass } = start()
  ask('next', { tokens: 1500, priority: 'low' })
  for (const priority of ['low', 'normal', 'high'] as const)
    for (let n = 0; n < 3; n++) ask(priority, { priority })
  await pass(60)
  assert.deepEqual(sent, ['first', 'next', ...['high', 'normal', 'low'].flatMap((one) => [one, one, one])])
})

test('a large request is not overtaken by small ones for ever', async () => {
  const { sent, ask, pass } = start()
  ask('large', { tokens: 5500 })
  for (let n = 0; n < 5; n++) ask('small', { account: 'other' })
  await pass(55)
  assert.deepEqual(sent, ['first'])
  await pass(70)
  assert.deepEqual(sent.slice(0, 3), ['first', 'large', 'small'])
})

test('a request that is stopped leaves the others their turns', async () => {
  const { rate, sent, ask, pass } = start()
  const stop = new Stop()
  ask('stopped', { tokens: 5500 }, stop)
  ask('small')
  // After two seconds, the rate knows when the large request fits into a minute.
  await pass(2)
  stop.now('deadline')
  assert.equal(rate.waiting, 0)
  await pass(5)
  assert.deepEqual(sent, ['first', 'small'])
})

test('nodes whose next requests are each as large as a minute send them one after the other', async () => {
  const { one, other } = await startTwo()
  other.ask('large', { tokens: 6000 })
  await one.pass(1)
  one.ask('large', { tokens: 6000 })
  await one.pass(200)
  assert.deepEqual([...one.sent, ...other.sent], ['small', 'small', 'small', 'small', 'large', 'large'])
})

test('while the server takes nothing, a node asks others no more often than every half second', async () => {
  const { one, counts } = await startTwo()
  one.rate.block(20_000)
  one.ask('later')
  const before = counts.exchanges
  await one.pass(10)
  assert.ok(counts.exchanges - before <= 20, String(counts.exchanges - before))
  await one.pass(15)
  assert.ok(one.sent.includes('later'))
})

test('what was sent is reported within about a second, however steadily requests are sent', async () => {
  const { one, counts } = await startTwo()
  await one.pass(20)
  const before = counts.exchanges
  for (let n = 0; n < 50; n++) {
    one.rate.used({ requests: 0, tokens: 1 }, one.clock.steadyMs())
    one.clock.advance(200)
    await setImmediate()
  }
  assert.ok(counts.exchanges - before >= 8, String(counts.exchanges - before))
})

test('a node asks for the next request and a second of others, however many wait', async () => {
  const { one, asks } = await startTwo()
  for (let n = 0; n < 100; n++) one.ask('small')
  await one.pass(3)
  assert.ok(asks.length > 1)
  for (const { wants } of asks) assert.ok(wants.requests <= 2, String(wants.requests))
})

test('a request costs the same, however many accounts there are', () => {
  const costOf = (accounts: number) => {
    const clock = new FakeClock()
    const unlimited = { requests: 1e9, tokens: 1e12 }
    const rate = new Rate(unlimited, ownBook(clock), clock)
    const before = process.cpuUsage().user
    for (let n = 0; n < accounts; n++)
      void rate.reserve({ account: `account ${n}`, weight: 1, tokens: 100 }, new Stop())
    return process.cpuUsage().user - before
  }
  // The least of several measurements counts, because other processes and garbage collection only add time.
  const leastOf = (accounts: number) => Math.min(...Array.from({ length: 5 }, () => costOf(accounts)))
  const [few, many] = [leastOf(4000), leastOf(32_000)]
  // There are eight times as many requests. If each one examined all accounts, it would take 64 times as long.
  assert.ok(many < 30 * few, `${few} and ${many} µs`)
})

for (const [name, other] of [
  ['requests', 'tokens'],
  ['tokens', 'requests'],
] as const) {
  test(`what a server says about its limit of ${name} counts, if it is about this rate`, () => {
    const { asks, book } = recordingBook()
    const none = Number.POSITIVE_INFINITY
    const configured = { requests: 60, tokens: 6000 }
    const afterReport = (isAlone: boolean, limit: number) => {
      const rate = new Rate(configured, book, new FakeClock())
      const report = { [name]: limit, [other]: none } as unknown as Amounts
      const left = { [name]: 1, [other]: none } as unknown as Amounts
      rate.serverSays({ limit: report, left, resetMs: { requests: 5, tokens: 5 } }, isAlone)
      void rate.reserve({ account: 'acme', weight: 1, tokens: 1 }, new Stop())
      return [rate.limits, asks.at(-1)?.left?.[name]]
    }
    assert.deepEqual(afterReport(true, 30), [{ ...configured, [name]: 30 }, 1])
    assert.deepEqual(afterReport(true, 1e9), [configured, 1])
    assert.deepEqual(afterReport(false, configured[name]), [configured, 1])
    assert.deepEqual(afterReport(false, 30), [configured, none])
  })
}

test('a request that is sent again in another format counts twice, and what it used replaces the last estimate', () => {
  const { asks, book } = recordingBook()
  const clock = new FakeClock()
  const rate = new Rate(LIMITS, book, clock)
  const reserve = () => rate.reserve({ account: 'acme', weight: 1, tokens: 100 }, new Stop())
  const reservation = reserve()
  assert.ok(reservation instanceof Reservation)
  for (let sent = 0; sent < 2; sent++) reservation.sent(clock.steadyMs())
  reservation.usedTokens(130)
  reservation.end()
  void reserve()
  const used = asks.flatMap((one) => one.used)
  const sum = (name: 'requests' | 'tokens') => used.reduce((total, one) => total + one[name], 0)
  assert.deepEqual([sum('requests'), sum('tokens')], [2, 230])
})
