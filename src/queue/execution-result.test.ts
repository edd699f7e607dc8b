/** Tests results that replace the result of an execution, what is stored about earlier runs, and how long a job has waited. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newJob } from '../../test/store-contract/fixtures.ts'
import {
  crashedTooOften,
  type EarlierRuns,
  earlierRunsJson,
  INTERNAL_FAILURE,
  NO_RUNS,
  notStorable,
  readEarlierRuns,
  waitedMs,
} from './execution-result.ts'

test('a result that the database rejects keeps what was paid for', () => {
  const counts = { input_tokens: 40, output_tokens: 2, cached_input_tokens: 30, cost: 7, calls: 60 }
  const usage = { target: 'a/m', ...counts, cache_hit: false, repaired: false }
  const receipt = { form: 'json', calls: [], calls_omitted: 60 } as const
  const outcome = { status: 'failed', error: INTERNAL_FAILURE } as const
  const stored = notStorable({ outcome, usage, receipt, cache: null })
  assert.deepEqual(stored.usage, usage)
  assert.deepEqual(stored.receipt, receipt)
})

test('a job that crashed too often keeps the usage of its earlier runs, and says that calls may be missing', () => {
  const earlierJson = JSON.stringify({ calls: 2, records: [], inputTokens: 40, outputTokens: 3, cost: 7 })
  const job = { ...newJob(), attempt: 4, crashCount: 3, crashedAlone: true, earlierJson }
  const { outcome, usage, receipt } = crashedTooOften(job)
  assert.deepEqual(outcome.status === 'failed' && [outcome.error.code, outcome.error.message], [
    'internal_error',
    'The process that ran this job crashed 3 times before the job finished.',
  ])
  assert.deepEqual([usage.calls, usage.input_tokens, usage.output_tokens, usage.cost], [2, 40, 3, 7])
  assert.equal(receipt.calls_lost, true)
})

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
