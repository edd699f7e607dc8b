/** Tests that callers can cancel, list and delete their own jobs with the client. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConflictError, type JobSummary, NotFoundError } from '../../client/src/index.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { asking, reasonOf, shareFaulty } from './client.ts'

onAnyStore(() => {
  const start = shareFaulty()

  test('a cancelled job has failed, is cancelled again without an error, and ends its waits', async (t) => {
    const { models, client } = await start(t)
    models.script = () => reply.stall()
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
    const { models, client } = await start(t)
    const done = await client.messages.createAndWait(asking('Hello'))
    assert.equal((await reasonOf(client.messages.cancel(done.job_id), ConflictError)).status, 409)
    models.script = () => reply.stall()
    const [open = ''] = await client.messages.createBatch([asking('Open')])
    await assert.rejects(client.messages.delete(open), ConflictError)
    assert.deepEqual(await client.messages.delete(done.job_id), { job_id: done.job_id, deleted: true })
    await assert.rejects(client.messages.retrieve(done.job_id), NotFoundError)
    await assert.rejects(client.messages.delete(done.job_id), NotFoundError)
    await assert.rejects(client.messages.cancel('no-such-job'), NotFoundError)
  })

  test('a delete and a cancel whose responses are lost are executed once', async (t) => {
    const { models, client, proxy } = await start(t)
    const { job_id } = await client.messages.createAndWait(asking('Hello'))
    proxy.script('reset after', 'cut the answer')
    assert.deepEqual(await client.messages.delete(job_id), { job_id, deleted: true })
    models.script = () => reply.stall()
    const [open = ''] = await client.messages.createBatch([asking('Open')])
    proxy.script('reset after', { status: 503, headers: { 'retry-after': '1' } })
    assert.equal((await client.messages.cancel(open)).error.code, 'cancelled')
  })

  test('a list is a page, or all jobs in pages, newest first', async (t) => {
    const { models, client } = await start(t)
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
    // This line compiles only because the status tells the compiler that the job has ended.
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
