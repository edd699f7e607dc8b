import assert from 'node:assert/strict'
import { test } from 'node:test'
import { COMPLETED, newJob, USAGE } from '../../test/store-contract/fixtures.ts'
import type { JobError } from '../job/job.ts'
import type { Settled } from '../store/store.ts'
import { createAfterSettlement } from './after-settlement.ts'

const MESSAGE = 'quotes the conversation'

/** Runs `afterSettlement` for a job with a callback, and returns what it did. */
function follows(settled: Settled, error: JobError | null = null) {
  const done: unknown[] = []
  const afterSettlement = createAfterSettlement({
    pendingResponses: { end: (jobId, end) => void done.push(['end', jobId, end.kind]) },
    dispatcher: { notify: (account, jobId) => void done.push(['notify', account, jobId]) },
    metrics: { settled: ({ model }, _result, ms) => void done.push(['settled', model, ms]) },
    log: {
      debug: (_fields, message) => void done.push(['debug', message]),
      warn: (fields, message) => void done.push(['warn', message, JSON.stringify(fields).includes(MESSAGE)]),
    },
  })
  const job = { ...newJob(), id: 'job', callbackJson: '{}' }
  const outcome = error === null ? COMPLETED : ({ status: 'failed', error } as const)
  const result = { outcome, usage: USAGE, receipt: { form: 'text', calls: [] } } as const
  afterSettlement(job, result, settled, 12)
  return done
}

test('the holder that settled a job answers, notifies, counts and logs; another one does nothing', () => {
  const all = [
    ['end', 'job', 'settled'],
    ['notify', 'acme', 'job'],
    ['settled', 'gpt-5-mini', 12],
  ]
  assert.deepEqual(follows('settled'), [...all, ['debug', 'job completed']])
  const error = { code: 'model_error', message: 'No.', upstream_message: MESSAGE } as const
  assert.deepEqual(follows('settled', error), [...all, ['warn', 'job failed', false]])
  assert.deepEqual(follows('stale'), [])
})

test('the caller of a job that can no longer be read learns that it is gone', () => {
  assert.deepEqual(follows('gone'), [['end', 'job', 'vanished']])
})
