/** Tests the admin API's actions on jobs, cancel and delete, and what callers see of them. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { reply } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { job, type Parley } from '../../parley.ts'
import { jobsStored, openDatabase } from '../database.ts'
import { enqueued, failed, granted, invalid, refused } from '../expect.ts'
import { type StageOptions, startStage } from '../stage.ts'
import { adminOf } from './admin.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const CANCELLED = {
  code: 'cancelled',
  message: 'An operator of the service cancelled the job.',
  cancelled_by: 'operator',
}

async function start(t: { after(end: () => unknown): void }, options: StageOptions = {}) {
  const stage = await startStage(t, options)
  return { ...stage, admin: await adminOf(stage.parley), key: await stage.parley.key() }
}

onEachStore(() => {
  test('a running job is cancelled: its call is cut off and its waiting caller answered', async (t) => {
    const { parley, models, admin, key } = await start(t, { script: () => reply.stall() })
    const waiting = parley.post(MESSAGES, job(), key)
    await models.received(1)
    // The call to the model server starts before the job is stored, so the test waits for the storage, too.
    const [id = ''] = await jobsStored(t, await openDatabase(t, parley), 1)
    assert.deepEqual(granted(await admin.post(`/jobs/${id}/cancel`), 200), { cancelled: true })
    assert.deepEqual(failed(await waiting), CANCELLED)
    assert.equal(await models.requests[0]?.ended, 'cut')
    assert.deepEqual(failed(await parley.get(`${MESSAGES}/${id}`, key)), CANCELLED)
    const { jobs: left } = granted(await admin.get('/overview'), 200)
    assert.deepEqual([left.running, left.assigned], [0, 0])
    const again = refused(await admin.post(`/jobs/${id}/cancel`), 409)
    assert.equal(again.message, 'The job has already finished.')
  })

  test('cancelling a running job that a request waits for takes five store operations', async (t) => {
    const { parley, models, admin, key } = await start(t, { script: () => reply.stall() })
    const waiting = parley.post(MESSAGES, job(), key)
    await models.received(1)
    const [id = ''] = await jobsStored(t, await openDatabase(t, parley), 1)
    const operations = recordOperations(parley.store)
    granted(await admin.post(`/jobs/${id}/cancel`), 200)
    assert.deepEqual(failed(await waiting), CANCELLED)
    assert.deepEqual(
      [...operations].sort(),
      ['addAuditEntry', 'cancelJob', 'takeCancelled', 'readEnded', 'endAuditEntry'].sort(),
    )
  })

  test('a queued job is cancelled, and never runs', async (t) => {
    const { parley, models, admin, key } = await start(t, {
      script: () => reply.stall(),
      settings: { jobs: { concurrency: 1 } },
    })
    const ids = enqueued(await parley.post(BATCHES, [job(), job({ model: 'gpt-5' })], key), 2)
    await models.received(1)
    const { jobs } = granted(await admin.get('/jobs?status=pending'), 200)
    const [{ job_id: id }] = jobs
    granted(await admin.post(`/jobs/${id}/cancel`), 200)
    models.script = () => undefined
    models.release()
    const other = ids.find((one) => one !== id) ?? ''
    assert.equal((await parley.ended(other, key)).body.data.status, 'completed')
    assert.deepEqual(failed(await parley.get(`${MESSAGES}/${id}`, key)), CANCELLED)
    assert.equal(models.requests.length, 1)
  })

  test('an ended job is deleted with its contents and its cached response', async (t) => {
    const { parley, models, admin, key } = await start(t)
    const { job_id: id } = granted(await parley.post(MESSAGES, job(), key), 200)
    assert.deepEqual(granted(await admin.delete(`/jobs/${id}`), 200), { deleted: true })
    refused(await parley.get(`${MESSAGES}/${id}`, key), 404)
    refused(await admin.get(`/jobs/${id}`), 404)
    refused(await admin.get(`/jobs/${id}/content`), 404)
    refused(await admin.delete(`/jobs/${id}`), 404)
    const again = await parley.post(MESSAGES, job(), key)
    assert.equal(again.headers.get('x-cache'), null)
    assert.equal(models.requests.length, 2, 'no answer is kept of what was deleted')
    const kept = await admin.delete(`/jobs/${granted(again, 200).job_id}?scrub=false`)
    assert.deepEqual(granted(kept, 200), { deleted: true })
  })

  test('a job that has not ended is not deleted', async (t) => {
    const { parley, models, admin, key } = await start(t, { script: () => reply.stall() })
    const [id = ''] = enqueued(await parley.post(BATCHES, [job()], key), 1)
    await models.received(1)
    assert.match(refused(await admin.delete(`/jobs/${id}`), 409).details ?? '', /Cancel the job first/)
    granted(await admin.post(`/jobs/${id}/cancel`), 200)
    granted(await admin.delete(`/jobs/${id}`), 200)
  })

  test('if the disk could not be scrubbed, the response says that the job is deleted, and how to continue', async (t) => {
    const { parley, admin, key } = await start(t)
    const { job_id: id } = granted(await parley.post(MESSAGES, job(), key), 200)
    parley.store.scrub = () => Promise.reject(new Error('somebody reads'))
    const error = refused(await admin.delete(`/jobs/${id}`), 409)
    assert.equal(error.message, 'Deleted, but not scrubbed from the disk.')
    assert.match(error.details ?? '', /^somebody reads\. .*parley scrub/)
    refused(await admin.get(`/jobs/${id}`), 404)
    const [entry] = granted(await admin.get('/audit'), 200).acts
    assert.equal(entry.outcome, 'deleted, not scrubbed: somebody reads')
  })

  test('unknown jobs are not found, and invalid parameters are rejected by name', async (t) => {
    const { admin } = await start(t)
    for (const id of [randomUUID(), 'x', '%00']) {
      refused(await admin.post(`/jobs/${id}/cancel`), 404)
      refused(await admin.delete(`/jobs/${id}`), 404)
    }
    const scrub = await admin.delete(`/jobs/${randomUUID()}?scrub=maybe`)
    invalid(scrub, 'scrub: must be one of true, false')
  })
})

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
