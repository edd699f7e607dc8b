import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { ReadBudget } from './read-budget.ts'

/** Starts this many reads at once. Returns when each was allowed, in milliseconds. */
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
  budget.learn(60, 5, 10, 0)
  assert.deepEqual(await turns(budget, clock, 5), [0, 2000, 4000, 6000, 8000])
})

test('when nothing is left, the next minute is waited for, and it is no longer than a minute', async () => {
  const clock = new FakeClock()
  const budget = new ReadBudget(clock)
  budget.learn(3, 0, 30, 0)
  assert.deepEqual(await turns(budget, clock, 4), [30_000, 50_000, 70_000, 90_000])
})

const said = (limit: number, remaining: number, reset: number) =>
  new Headers({
    'ratelimit-limit': `${limit}`,
    'ratelimit-remaining': `${remaining}`,
    'ratelimit-reset': `${reset}`,
  })

test('it learns from the headers of an answer, and from none that are not there', async () => {
  const clock = new FakeClock()
  const budget = new ReadBudget(clock)
  const reading = budget.begin()
  reading.learn(new Headers())
  reading.learn(new Headers({ 'ratelimit-limit': '60' }))
  assert.deepEqual(await turns(budget, clock, 2), [0, 0])
  reading.learn(said(60, 0, 7))
  reading.end()
  assert.deepEqual(await turns(budget, clock, 1), [7000])
})

test('reads that are under way are taken off what an answer says is left', async () => {
  const clock = new FakeClock()
  const budget = new ReadBudget(clock)
  const [first, second, third] = [budget.begin(), budget.begin(), budget.begin()]
  first.learn(said(60, 4, 10))
  first.end()
  assert.deepEqual(await turns(budget, clock, 2), [0, 5000])
  second.end()
  third.learn(said(60, 2, 20))
  third.end()
  assert.deepEqual(await turns(budget, clock, 2), [10_000, 17_500])
})

test('an answer to what was sent in the minute before says nothing of this one', async () => {
  const clock = new FakeClock()
  const budget = new ReadBudget(clock)
  budget.learn(2, 0, 10, 0)
  const late = budget.begin()
  assert.deepEqual(await turns(budget, clock, 1), [10_000])
  late.learn(said(2, 0, 1))
  late.end()
  assert.deepEqual(await turns(budget, clock, 2), [40_000, 70_000])
})

test('an abort ends the waiting', async () => {
  const clock = new FakeClock()
  const budget = new ReadBudget(clock)
  budget.learn(3, 0, 30, 0)
  const controller = new AbortController()
  const turn = budget.turn(controller.signal)
  controller.abort(new Error('enough'))
  await assert.rejects(turn, /enough/)
  assert.deepEqual(clock.pending(), [])
})
