import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TaskFailed } from '../cpu-pool/pool-thread.ts'
import { lineReader } from './batches.ts'

test('a long line that takes too much memory is wrong, and other failures of a thread are retried', async () => {
  const line = { bytes: new Uint8Array(), endpoint: '', maxDepth: 1, limits: {} as never }
  const read = (error: TaskFailed) => lineReader({ run: () => Promise.reject(error) })(line, 'acme')
  const wrong = await read(new TaskFailed('memory', true))
  assert.equal('code' in wrong && wrong.code, 'line_too_long')
  await assert.rejects(read(new TaskFailed('The thread ended.')), /The thread ended/)
})
