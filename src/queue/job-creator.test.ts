import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { JobCreator, type JobCreatorOptions } from './job-creator.ts'
import { PendingResponses } from './pending-responses.ts'

test('a repeated request stops waiting when the earlier job is deleted', async () => {
  const clock = new FakeClock()
  const pendingResponses = new PendingResponses(clock, 8)
  const creator = new JobCreator({ clock, pendingResponses } as unknown as JobCreatorOptions)
  const record = {
    id: 'job',
    status: 'assigned',
    createdAtMs: 0,
    contentJson: null,
    errorJson: null,
    usageJson: null,
  } as const
  const wait = await creator.awaitEarlier('job', 'acme', 90_000, async () => record)
  assert.ok('ended' in wait && pendingResponses.awaitsExisting('job'))
  pendingResponses.vanished('job')
  assert.deepEqual(await wait.ended, { kind: 'vanished' })
})
