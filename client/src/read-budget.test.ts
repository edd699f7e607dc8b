import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { ReadBudget } from './read-budget.ts'

/** When each of so many reads, all asked for at once, was allowed. */
async function turns(budget: ReadBudget, clock: FakeClock, count: number): Promise<number[]> {
  const at: number[] = []
  const taken = Array.from({ length: count }, () =>
    budget.turn(undefined).then(() => void at.push(clock.steadyMs())),
  )
  const all = Promise.all(taken)
  while (at.length < count) {
    await setImmediate()
    if (at.length < count) clock.advance(100)
  }
  await all
  return at
}

test('before the server has said what is left, nothing is held back', async () => {
  const clock = new FakeClock()
  assert.deepEqual(await turns(new ReadBudget(clock), clock, 5), [0, 0, 0, 0, 0])
})

test('what is left is spread over the rest of the minute', async () => {
  const clock = new FakeClock()
  const budget = new ReadBudget(clock)
  budget.learn(60, 5, 10)
  assert.deepEqual(await turns(budget, clock, 5), [0, 2000, 4000, 6000, 8000])
})

test('when nothing is left, the next minute is waited for, and it is no longer than a minute', async () => {
  const clock = new FakeClock()
  const budget = new ReadBudget(clock)
  budget.learn(3, 0, 30)
  assert.deepEqual(await turns(budget, clock, 4), [30_000, 50_000, 70_000, 90_000])
})

test('it learns from the headers of an answer, and from none that are not there', async () => {
  const clock = new FakeClock()
  const budget = new ReadBudget(clock)
  budget.learnFrom(new Headers())
  budget.learnFrom(new Headers({ 'ratelimit-limit': '60' }))
  assert.deepEqual(await turns(budget, clock, 2), [0, 0])
  const headers = { 'ratelimit-limit': '60', 'ratelimit-remaining': '0', 'ratelimit-reset': '7' }
  budget.learnFrom(new Headers(headers))
  assert.deepEqual(await turns(budget, clock, 1), [7000])
})

test('an abort ends the waiting', async () => {
  const clock = new FakeClock()
  const budget = new ReadBudget(clock)
  budget.learn(3, 0, 30)
  const controller = new AbortController()
  const turn = budget.turn(controller.signal)
  controller.abort(new Error('enough'))
  await assert.rejects(turn, /enough/)
  assert.deepEqual(clock.pending(), [])
})
