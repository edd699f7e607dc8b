import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { newJob } from '../../test/store-contract/fixtures.ts'
import { Stop } from '../job/stop.ts'
import type { RoutedReply } from '../upstreams/model-server.ts'
import { createExecuteJob } from './execute.ts'

test('a job fails if its answer cannot be read because of a bug, and its call still counts', async () => {
  const tokens = { input: 10, output: 20 }
  const call = {
    target: 'a/m',
    kind: 'answer',
    status: 200,
    at_ms: 0,
    ms: 1,
    cost: 7,
    roles: 'native',
  } as const
  const routed: RoutedReply = {
    reply: { kind: 'answer', text: '{}', tokens },
    target: 'a/m',
    calls: [call],
    tokens,
  }
  const bug = new TypeError('a bug')
  const errors: unknown[] = []
  const execute = createExecuteJob({
    store: { findResponse: () => null },
    router: { ask: async () => routed, close: async () => {} },
    answers: { read: () => Promise.reject(bug), schemaFacts: () => ({ strict: false, isObject: true }) },
    contextShifts: { check: async () => {} },
    clock: new FakeClock(),
    cacheKeyOf: () => null,
    maxAttempts: 3,
    patienceMs: 0,
    isPriced: () => true,
    onError: (_message, error) => errors.push(error),
  })
  const job = { ...newJob(), attempt: 1, crashCount: 0, crashedAlone: false }
  const result = await execute(job, new Stop())
  assert.ok(result !== null && result.outcome !== null)
  const { outcome } = result
  assert.equal(outcome.status === 'failed' && outcome.error.code, 'model_error')
  const { input_tokens, output_tokens, cost, calls } = result.usage
  assert.deepEqual([input_tokens, output_tokens, cost, calls], [10, 20, 7, 1])
  assert.deepEqual(result.receipt.calls, [call])
  assert.deepEqual(errors, [bug])
})
