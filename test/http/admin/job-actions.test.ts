/** Tests the admin API's actions on jobs, cancel and delete, and what callers see of them. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { reply } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { job, type Parley } from '../../parley.ts'
import { idOf } from '../caller.ts'
import { jobsStored, openDatabase } from '../database.ts'
import { completed, failed, granted, invalid, refused } from '../expect.ts'
import { shareAdminStage, startAdminScene } from './admin.ts'

const CANCELLED = {
  code: 'cancelled',
  message: 'An operator of the service cancelled the job.',
  cancelled_by: 'operator',
}

/**
 * Operations that the test doesn't count: nodes on Postgres poll the queue every second of real time, whatever time the test's
 * clock shows.
 */
const POLLS = ['claim', 'queued', 'queuedSuspects', 'accountsOverBudget']

function recordOperations(store: Parley['store']): readonly string[] {
  const called: string[] = []
  const methods = store as unknown as Record<string, (...args: unknown[]) => unknown>
  for (const name of Object.keys(store)) {
    const method = methods[name]
    if (typeof method !== 'function') continue
    methods[name] = (...args) => {
      if (!POLLS.includes(name)) called.push(name)
      return method.apply(store, args)
    }
  }
  return called
}

onEachStore(async () => {
  const begin = await shareAdminStage()

  test('a running job is cancelled: its call is cut off and its waiting caller answered, in five store operations', async (t) => {
    const { parley, caller, models, admin } = await startAdminScene(t, { script: () => reply.stall() })
    const waiting = caller.create()
    await models.received(1)
    // The call to the model server starts before the job is stored, so the test waits for the storage, too.
    const [id] = await jobsStored(t, await openDatabase(t, parley), 1)
    const operations = recordOperations(parley.store)
    assert.deepEqual(await admin.run(`/jobs/${id}/cancel`), { cancelled: true })
    assert.deepEqual(failed(await waiting), CANCELLED)
    const expected = ['addAuditEntry', 'cancelJob', 'takeCancelled', 'readEnded', 'endAuditEntry']
    assert.deepEqual(operations.toSorted(), expected.toSorted())
    assert.equal(await models.requests[0]?.ended, 'cut')
    assert.deepEqual(failed(await caller.read(id)), CANCELLED)
    const { jobs: left } = await admin.read('/overview')
    assert.deepEqual([left.running, left.assigned], [0, 0])
    const again = refused(await admin.post(`/jobs/${id}/cancel`), 409)
    assert.equal(again.message, 'The job has already finished.')
  })

  test('a queued job is cancelled, and never runs', async (t) => {
    const { caller, models, admin } = await startAdminScene(t, {
      script: () => reply.stall(),
      settings: { jobs: { concurrency: 1 } },
    })
    const ids = await caller.enqueue([job(), job({ model: 'gpt-5' })])
    await models.received(1)
    const [{ job_id: id }] = (await admin.read('/jobs?status=pending')).jobs
    await admin.run(`/jobs/${id}/cancel`)
    models.script = () => undefined
    models.release()
    completed(await caller.ended(ids.find((one) => one !== id)))
    assert.deepEqual(failed(await caller.read(id)), CANCELLED)
    assert.equal(models.requests.length, 1)
  })

  test('an ended job is deleted with its contents and its cached response', async (t) => {
    const { caller, models, admin } = await begin(t)
    const id = idOf(await caller.create())
    assert.deepEqual(granted(await admin.delete(`/jobs/${id}`), 200), { deleted: true })
    refused(await caller.read(id), 404)
    for (const path of [`/jobs/${id}`, `/jobs/${id}/content`]) refused(await admin.get(path), 404)
    refused(await admin.delete(`/jobs/${id}`), 404)
    const again = await caller.create()
    assert.equal(again.headers.get('x-cache'), null)
    assert.equal(models.requests.length, 2, 'no answer is kept of what was deleted')
    const unscrubbed = await admin.delete(`/jobs/${idOf(again)}?scrub=false`)
    assert.deepEqual(granted(unscrubbed, 200), { deleted: true })
  })

  test('a job that has not ended is not deleted', async (t) => {
    const { caller, models, admin } = await begin(t, () => reply.stall())
    const id = await caller.enqueueOne()
    await models.received(1)
    assert.match(refused(await admin.delete(`/jobs/${id}`), 409).details ?? '', /Cancel the job first/)
    await admin.run(`/jobs/${id}/cancel`)
    granted(await admin.delete(`/jobs/${id}`), 200)
  })

  test('if the disk could not be scrubbed, the response says that the job is deleted, and how to continue', async (t) => {
    const { parley, caller, admin, account } = await begin(t)
    const id = idOf(await caller.create())
    t.mock.method(parley.store, 'scrub', () => Promise.reject(new Error('somebody reads')))
    const error = refused(await admin.delete(`/jobs/${id}`), 409)
    assert.equal(error.message, 'Deleted, but not scrubbed from the disk.')
    assert.match(error.details ?? '', /^somebody reads\. .*parley scrub/)
    refused(await admin.get(`/jobs/${id}`), 404)
    const [entry] = (await admin.read(`/audit?account=${account}`)).acts
    assert.equal(entry.outcome, 'deleted, not scrubbed: somebody reads')
  })

  test('unknown jobs are not found, and invalid parameters are rejected by name', async (t) => {
    const { admin } = await begin(t)
    for (const id of [randomUUID(), 'x', '%00']) {
      refused(await admin.post(`/jobs/${id}/cancel`), 404)
      refused(await admin.delete(`/jobs/${id}`), 404)
    }
    const scrub = await admin.delete(`/jobs/${randomUUID()}?scrub=maybe`)
    invalid(scrub, 'scrub: must be one of true, false')
  })
})
