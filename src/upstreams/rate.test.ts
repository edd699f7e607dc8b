/** The order in which requests that wait for a rate are sent. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { Stop } from '../job/stop.ts'
import { ownBook, Rate, type RateRequest } from './rate.ts'

const LIMITS = { requests: 1000, tokens: 6000 }

/** A rate of which everything that may be sent at once has been sent, and what is sent from then on. */
function start() {
  const clock = new FakeClock()
  const rate = new Rate(LIMITS, ownBook(clock), clock)
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
      await setImmediate()
    }
  }
  ask('first', { tokens: 1100 })
  return { rate, sent, ask, pass }
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
  stop.now('deadline')
  assert.equal(rate.waiting, 1)
  await pass(5)
  assert.deepEqual(sent, ['first', 'small'])
})
