import assert from 'node:assert/strict'
import test from 'node:test'
import { job, startParley } from './parley.ts'

test('a first job', async (t) => {
  const parley = await startParley(t)
  const key = await parley.key()
  const answer = await parley.post('/api/v1/messages', job(), key)
  assert.equal(answer.status, 200)
  const read = await parley.ended(answer.body.data.job_id, key)
  assert.deepEqual(read.body.data, answer.body.data)
})
