/** Results of executions that are replaced. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { INTERNAL_FAILURE, notStorable } from './outcome-and-receipt.ts'

test('a result that the database rejects keeps what was paid for', () => {
  const counts = { input_tokens: 40, output_tokens: 2, cached_input_tokens: 30, cost: 7, calls: 60 }
  const usage = { target: 'a/m', ...counts, cache_hit: false, repaired: false }
  const receipt = { form: 'json', calls: [], calls_omitted: 60 } as const
  const outcome = { status: 'failed', error: INTERNAL_FAILURE } as const
  const stored = notStorable({ outcome, usage, receipt, cache: null })
  assert.deepEqual(stored.usage, usage)
  assert.deepEqual(stored.receipt, receipt)
})
