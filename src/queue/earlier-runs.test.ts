/** What is stored about earlier runs of a job, and how long the job has waited. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type EarlierRuns, earlierRunsJson, NO_RUNS, readEarlierRuns, waitedMs } from './earlier-runs.ts'

const HOUR_MS = 3_600_000
const TRIED: EarlierRuns = { ...NO_RUNS, calls: 3, tries: 1, sinceMs: 1000, waitedMs: 50 }

test('what earlier runs used is read as it was written', () => {
  const runs: EarlierRuns = {
    ...TRIED,
    records: [{ target: 'a/m', kind: 'trouble', status: 503, at_ms: 5, ms: 6, roles: 'native' }],
    inputTokens: 7,
    outputTokens: 8,
    repair: { raw_text: { json: '"{\\"a\\": 1"' }, errors: ['a must be a string'] },
  }
  const read = readEarlierRuns(earlierRunsJson(runs))
  assert.deepEqual(read, { ...runs, repair: { raw_text: '{"a": 1', errors: ['a must be a string'] } })
  assert.deepEqual(readEarlierRuns(undefined), NO_RUNS)
})

const times = {
  createdAtMs: 500,
  runStartedMs: HOUR_MS,
  nowMs: HOUR_MS + 10,
  availableSinceMs: Number.NEGATIVE_INFINITY,
}

test('an untried job has waited since its creation or the beginning of the outage, whichever is later', () => {
  assert.equal(waitedMs(NO_RUNS, { ...times, unavailableSinceMs: 100 }), HOUR_MS - 490)
  assert.equal(waitedMs(NO_RUNS, { ...times, unavailableSinceMs: 2000 }), HOUR_MS - 1990)
})

test('a tried job has waited since its release, and before', () => {
  assert.equal(waitedMs(TRIED, { ...times, unavailableSinceMs: 100 }), HOUR_MS - 990 + 50)
  assert.equal(waitedMs(TRIED, { ...times, unavailableSinceMs: 2000 }), HOUR_MS - 1990 + 50)
})

test('time in the queue while the server could be asked does not count, only the pauses of the run', () => {
  const recovered = { ...times, availableSinceMs: 4000, unavailableSinceMs: null }
  const runMs = times.nowMs - times.runStartedMs
  assert.equal(waitedMs(TRIED, recovered), 3000 + 50 + runMs)
  assert.equal(waitedMs(TRIED, { ...recovered, nowMs: times.runStartedMs + 60_000 }), 3000 + 50 + 2500)
  assert.equal(waitedMs(TRIED, { ...recovered, unavailableSinceMs: HOUR_MS + 5 }), 3000 + 50)
  assert.equal(waitedMs(TRIED, { ...times, unavailableSinceMs: null }), 50 + runMs)
  assert.equal(waitedMs(NO_RUNS, recovered), runMs)
  assert.equal(waitedMs(NO_RUNS, { ...recovered, breakPausesMs: 9000 }), runMs + 9000)
})
