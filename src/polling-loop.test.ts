import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../test/fake-clock.ts'
import { PollingLoop } from './polling-loop.ts'

const PAUSE_MS = 1000

function start(task: (run: number) => Promise<void>, pauseMs: number | ((run: number) => number) = PAUSE_MS) {
  const clock = new FakeClock()
  const seen = { runs: 0, errors: [] as unknown[] }
  const loop = new PollingLoop({
    clock,
    pauseMs: typeof pauseMs === 'number' ? pauseMs : () => pauseMs(seen.runs),
    task: () => {
      seen.runs += 1
      return task(seen.runs)
    },
    onError: (error) => seen.errors.push(error),
  })
  return { clock, loop, seen }
}

/** The runs end when the test ends them. */
function startHeld() {
  let held = Promise.withResolvers<void>()
  const end = () => {
    held.resolve()
    held = Promise.withResolvers()
  }
  return { ...start(() => held.promise), end }
}

test('the first run starts after a pause, and each later one a pause after the end of the one before', async () => {
  const { clock, loop, seen, end } = startHeld()
  assert.deepEqual(clock.pending(), [])
  loop.start()
  clock.advance(PAUSE_MS - 1)
  assert.equal(seen.runs, 0)
  clock.advance(1)
  assert.equal(seen.runs, 1)
  clock.advance(10 * PAUSE_MS)
  assert.equal(seen.runs, 1, 'never twice at once')
  end()
  assert.equal(await clock.timerSet(), PAUSE_MS)
  clock.advance(PAUSE_MS)
  assert.equal(seen.runs, 2)
})

test('each pause may have a length of its own', async () => {
  const { clock, loop, seen } = start(
    async () => {},
    (run) => (run === 1 ? 20 : PAUSE_MS),
  )
  loop.start()
  for (const pauseMs of [PAUSE_MS, 20, PAUSE_MS]) {
    assert.equal(await clock.timerSet(), pauseMs)
    clock.advance(pauseMs)
  }
  assert.equal(seen.runs, 3)
})

test('an error is reported and the loop continues', async () => {
  const failure = new Error('unreachable')
  const { clock, loop, seen } = start(async (run) => {
    if (run === 1) throw failure
  })
  loop.start()
  for (let run = 1; run <= 2; run++) clock.advance(await clock.timerSet())
  assert.deepEqual(seen, { runs: 2, errors: [failure] })
})

test('a loop that is woken runs at once, or once more after the run in progress', async () => {
  const { clock, loop, seen, end } = startHeld()
  loop.wake()
  assert.equal(seen.runs, 0, 'not before it is started')
  loop.start()
  loop.wake()
  assert.deepEqual([seen.runs, clock.pending()], [1, []])
  loop.wake()
  loop.wake()
  end()
  await setImmediate()
  assert.equal(seen.runs, 2)
  end()
  assert.equal(await clock.timerSet(), PAUSE_MS)
  await loop.stop()
  loop.wake()
  assert.equal(seen.runs, 2)
})

test('stop resolves when the run in progress has ended, and none starts after it', async () => {
  const { clock, loop, end } = startHeld()
  loop.start()
  clock.advance(PAUSE_MS)
  let stopped = false
  const stopping = loop.stop().then(() => {
    stopped = true
  })
  await setImmediate()
  assert.equal(stopped, false)
  end()
  await stopping
  loop.start()
  assert.deepEqual(clock.pending(), [])
})

test('stop cancels the next run, and a second start adds none', async () => {
  const { clock, loop } = start(async () => assert.fail('it was stopped'))
  loop.start()
  loop.start()
  assert.deepEqual(clock.pending(), [PAUSE_MS])
  await loop.stop()
  assert.deepEqual(clock.pending(), [])
})
