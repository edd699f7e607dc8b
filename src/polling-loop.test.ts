import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../test/fake-clock.ts'
import { PollingLoop } from './polling-loop.ts'

const PAUSE_MS = 1000

function loopOf(clock: FakeClock, task: () => Promise<void>, pauseMs: number | (() => number) = PAUSE_MS) {
  const errors: unknown[] = []
  const loop = new PollingLoop({
    clock,
    pauseMs,
    task,
    onError: (error) => errors.push(error),
  })
  return { loop, errors }
}

test('the first run starts after a pause, and each later one a pause after the end of the one before', async () => {
  const clock = new FakeClock()
  let runs = 0
  let end = Promise.withResolvers<void>()
  const { loop } = loopOf(clock, () => {
    runs += 1
    return end.promise
  })
  assert.deepEqual(clock.pending(), [])
  loop.start()
  clock.advance(PAUSE_MS - 1)
  assert.equal(runs, 0)
  clock.advance(1)
  assert.equal(runs, 1)
  clock.advance(10 * PAUSE_MS)
  assert.equal(runs, 1, 'never twice at once')
  end.resolve()
  end = Promise.withResolvers()
  assert.equal(await clock.timerSet(), PAUSE_MS)
  clock.advance(PAUSE_MS)
  assert.equal(runs, 2)
})

test('each pause may have a length of its own', async () => {
  const clock = new FakeClock()
  let runs = 0
  const task = async () => {
    runs += 1
  }
  const { loop } = loopOf(clock, task, () => (runs === 1 ? 20 : PAUSE_MS))
  loop.start()
  for (const pauseMs of [PAUSE_MS, 20, PAUSE_MS]) {
    assert.equal(await clock.timerSet(), pauseMs)
    clock.advance(pauseMs)
  }
  assert.equal(runs, 3)
})

test('an error is reported and the loop continues', async () => {
  const clock = new FakeClock()
  const failure = new Error('unreachable')
  let runs = 0
  const { loop, errors } = loopOf(clock, async () => {
    runs += 1
    if (runs === 1) throw failure
  })
  loop.start()
  for (let run = 1; run <= 2; run++) clock.advance(await clock.timerSet())
  assert.deepEqual([runs, errors], [2, [failure]])
})

test('a loop that is woken runs at once, or once more after the run in progress', async () => {
  const clock = new FakeClock()
  let runs = 0
  let end = Promise.withResolvers<void>()
  const { loop } = loopOf(clock, () => {
    runs += 1
    return end.promise
  })
  loop.wake()
  assert.equal(runs, 0, 'not before it is started')
  loop.start()
  loop.wake()
  assert.deepEqual([runs, clock.pending()], [1, []])
  loop.wake()
  loop.wake()
  end.resolve()
  end = Promise.withResolvers()
  await setImmediate()
  assert.equal(runs, 2)
  end.resolve()
  assert.equal(await clock.timerSet(), PAUSE_MS)
  await loop.stop()
  loop.wake()
  assert.equal(runs, 2)
})

test('stop resolves when the run in progress has ended, and none starts after it', async () => {
  const clock = new FakeClock()
  const end = Promise.withResolvers<void>()
  const { loop } = loopOf(clock, () => end.promise)
  loop.start()
  clock.advance(PAUSE_MS)
  let stopped = false
  const stopping = loop.stop().then(() => {
    stopped = true
  })
  await setImmediate()
  assert.equal(stopped, false)
  end.resolve()
  await stopping
  loop.start()
  assert.deepEqual(clock.pending(), [])
})

test('stop cancels the next run, and a second start adds none', async () => {
  const clock = new FakeClock()
  const { loop } = loopOf(clock, async () => assert.fail('it was stopped'))
  loop.start()
  loop.start()
  assert.deepEqual(clock.pending(), [PAUSE_MS])
  await loop.stop()
  assert.deepEqual(clock.pending(), [])
})
