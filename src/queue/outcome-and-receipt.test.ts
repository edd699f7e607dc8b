/** Results that replace the result of an execution. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newJob } from '../../test/store-contract/fixtures.ts'
import { crashedTooOften, INTERNAL_FAILURE, notStorable } from './outcome-and-receipt.ts'

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
