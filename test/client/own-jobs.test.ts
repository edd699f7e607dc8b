/** Callers cancel, list and delete their own jobs with the client. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type BatchJob,
  ConflictError,
  type JobSummary,
  NotFoundError,
  type SingleJob,
  type TextFormat,
} from '../../client/src/index.ts'
import { startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { clientOf, faultyClient } from './client.ts'

const asking = (content: string): BatchJob<TextFormat> & SingleJob<TextFormat> => ({
  model: 'gpt-5-mini',
  response_format: { format: 'text' },
  messages: [{ role: 'user', content }],
})

onAnyStore(() => {
  test('a cancelled job has failed, is cancelled again without an error, and ends its waits', async (t) => {
    const { parley, models } = await startStage(t, { script: () => reply.stall() })
    const client = clientOf(parley, await parley.key())
    const [id = ''] = await client.messages.createBatch([asking('Hello')])
    await models.received(1)
    const waiting = client.messages.wait(id)
    const { data, response } = await client.messages.cancel(id).withResponse()
    assert.deepEqual(
      [data.status, data.error.code, data.error.cancelled_by],
      ['failed', 'cancelled', 'caller'],
    )
    assert.equal(response.status, 200)
    assert.deepEqual(await waiting, data)
    assert.deepEqual(await client.messages.cancel(id), data)
  })

  test('jobs that ended otherwise cannot be cancelled, and only ended jobs can be deleted, once', async (t) => {
    const { parley, models } = await startStage(t)
    const client = clientOf(parley, await parley.key())
    const done = await client.messages.createAndWait(asking('Hello'))
    await assert.rejects(client.messages.cancel(done.job_id), (error) => {
      assert.ok(error instanceof ConflictError)
      assert.equal(error.status, 409)
      return true
    })
    models.script = () => reply.stall()
    const [open = ''] = await client.messages.createBatch([asking('Open')])
    await assert.rejects(client.messages.delete(open), ConflictError)
    assert.deepEqual(await client.messages.delete(done.job_id), { job_id: done.job_id, deleted: true })
    await assert.rejects(client.messages.retrieve(done.job_id), NotFoundError)
    await assert.rejects(client.messages.delete(done.job_id), NotFoundError)
    await assert.rejects(client.messages.cancel('no-such-job'), NotFoundError)
  })

  test('a delete and a cancel whose responses are lost are executed once', async (t) => {
    const { parley, models } = await startStage(t)
    const { client, proxy } = await faultyClient(t, parley, await parley.key())
    const { job_id } = await client.messages.createAndWait(asking('Hello'))
    proxy.script('reset after', 'cut the answer')
    assert.deepEqual(await client.messages.delete(job_id), { job_id, deleted: true })
    models.script = () => reply.stall()
    const [open = ''] = await client.messages.createBatch([asking('Open')])
    proxy.script('reset after', { status: 503, headers: { 'retry-after': '1' } })
    assert.equal((await client.messages.cancel(open)).error.code, 'cancelled')
  })

  test('a list is a page, or all jobs in pages, newest first', async (t) => {
    const { parley, models } = await startStage(t)
    const client = clientOf(parley, await parley.key())
    const ids = await client.messages.createBatch(['one', 'two', 'three', 'four', 'five'].map(asking))
    await client.messages.waitAll(ids)
    const all: JobSummary[] = []
    for await (const job of client.messages.list({ limit: 2 })) all.push(job)
    assert.deepEqual(
      all.map((job) => job.job_id),
      ids.toReversed(),
    )
    const page = await client.messages.list({ limit: 2 })
    assert.deepEqual([page.jobs, typeof page.next], [all.slice(0, 2), 'string'])
    const [job] = all
    assert.ok(job?.status === 'completed')
    // The compiler knows from the status that the job has ended.
    assert.ok(job.ended_at.toFixed() !== '' && job.callback === null && job.model === 'gpt-5-mini')
    models.script = () => reply.stall()
    const [open = ''] = await client.messages.createBatch([asking('Open')])
    await client.messages.cancel(open)
    const failed: unknown[] = []
    for await (const one of client.messages.list({ status: 'failed' }))
      failed.push([one.job_id, one.error_code])
    assert.deepEqual(failed, [[open, 'cancelled']])
  })
})
