/** Tests what every store guarantees about jobs that have waited too long for model servers, or past their deadline. */
import assert from 'node:assert/strict'
import type { JobError } from '../../src/job/job.ts'
import type { Store } from '../../src/store/store.ts'
import { CALLBACK, take } from './callback-fixtures.ts'
import { claimOf, expiry, firstClaim, ids, jobIds, newJob, now, type On, several, USAGE } from './fixtures.ts'
import { DEAD, LIVE, queue, waiting } from './routes.ts'
import { accept, addAccounts, addHeld, addQueued, claimNext } from './steps.ts'

const PATIENCE_MS = 3_600_000
const ERROR: JobError = { code: 'model_error', message: 'No model server could be called.' }

function failOverdue(store: Store, unavailableSinceMs: number, account: string | null = null, limit = 100) {
  const overdue = { route: DEAD, account, unavailableSinceMs, patienceMs: PATIENCE_MS, error: ERROR }
  return store.failOverdue(overdue, now.ms, limit)
}

const failedIds = async (...args: Parameters<typeof failOverdue>) =>
  jobIds(await failOverdue(...args)).toSorted()

export function overdueTests(on: On): void {
  on(
    'fails queued jobs whose deadline has passed, also those that waited or crashed, and no others',
    async (store) => {
      const error: JobError = { code: 'deadline_exceeded', message: 'Too late.' }
      const fail = async (limit = 100) =>
        jobIds(await store.failOverdue({ route: null, error }, now.ms, limit))
      const dueIn = (ms: number) => newJob({ deadlineMs: now.ms + ms })
      const [held, waited, returned] = [dueIn(1000), dueIn(2000), dueIn(3000)]
      await queue(store, DEAD, held, waited, returned)
      const claimed = await claimNext(store, 'node-a', 3, now.ms, DEAD)
      const deadlines = claimed.map(({ deadlineMs }) => deadlineMs)
      assert.deepEqual(deadlines, [held.deadlineMs, waited.deadlineMs, returned.deadlineMs])
      assert.equal((await store.queued()).nextDeadlineMs, null)
      const wait = { route: LIVE, earlierJson: '{"calls":1}' }
      await store.releaseWaiting('node-a', [waiting({ ...waited, attempt: 1 }, wait)])
      await store.release('node-a', [firstClaim(returned)])
      const last = dueIn(20_000)
      await queue(store, LIVE, dueIn(10_000), dueIn(10_000), last, newJob())
      assert.equal((await store.queued()).nextDeadlineMs, waited.deadlineMs)
      assert.deepEqual(await fail(), [])
      now.ms += 2999
      assert.deepEqual(await fail(), [waited.id])
      now.ms += 1
      assert.deepEqual(await fail(), [returned.id])
      now.ms += 7000
      assert.equal((await fail(1)).length, 1)
      assert.equal((await fail()).length, 1)
      assert.deepEqual(await store.queued(), { routes: [LIVE], nextDeadlineMs: last.deadlineMs })
      const read = await store.read('acme', waited.id, expiry())
      assert.deepEqual([read?.status, read?.errorJson], ['failed', JSON.stringify(error)])
      assert.equal(JSON.parse(read?.usageJson ?? '').calls, 1)
      assert.equal((await store.read('acme', held.id, expiry()))?.status, 'assigned')
    },
  )

  on(
    'counts the wait of an untried job from its creation or the outage, whichever is later',
    async (store) => {
      const early = newJob()
      await queue(store, DEAD, early)
      now.ms += 1000
      const outageMs = now.ms
      const before = newJob()
      await queue(store, DEAD, before)
      await queue(store, LIVE, newJob())
      now.ms += 1000
      const after = newJob()
      await queue(store, DEAD, after)
      now.ms = outageMs + PATIENCE_MS
      assert.deepEqual(await failedIds(store, outageMs + 500), [])
      assert.deepEqual(await failedIds(store, outageMs), [early.id])
      now.ms += 1
      assert.deepEqual(await failedIds(store, outageMs), [before.id])
      now.ms += 1000
      assert.deepEqual(await failedIds(store, outageMs), [after.id])
      assert.deepEqual((await store.queued()).routes, [LIVE])
    },
  )

  on('counts the wait of a job that ran and never waited from its creation', async (store) => {
    const job = newJob()
    await queue(store, DEAD, job)
    await claimNext(store, 'node-a', 1, now.ms, DEAD)
    await store.release('node-a', [firstClaim(job)])
    now.ms += PATIENCE_MS + 1
    assert.deepEqual(await failedIds(store, 0), [job.id])
  })

  on('counts the wait of a tried job from its release, and what it waited before', async (store) => {
    await queue(store, '', ...several(2))
    const [first, second] = await claimNext(store, 'node-a', 2)
    assert.ok(first && second)
    await store.releaseWaiting('node-a', [waiting(first), waiting(second, { waitedMs: 60_000 })])
    const releasedMs = now.ms
    now.ms += PATIENCE_MS - 60_001
    assert.deepEqual(await failedIds(store, releasedMs), [])
    now.ms += 1
    assert.deepEqual(await failedIds(store, releasedMs + 1), [])
    assert.deepEqual(await failedIds(store, releasedMs - 1), [second.id])
    now.ms += 60_000
    assert.deepEqual(await failedIds(store, 0, null, 1), [first.id])
  })

  on(
    'fails jobs of one account if that is asked, up to a limit, suspects too, and none that a node holds',
    async (store) => {
      await addAccounts(store, 'one')
      const [suspect, held] = [newJob({ account: 'one' }), newJob({ account: 'one' })]
      await queue(store, DEAD, suspect)
      await claimNext(store, 'dead', 1, now.ms, DEAD)
      await store.rescue('node-a', now.ms)
      await queue(store, DEAD, held)
      assert.equal((await claimNext(store, 'node-a', 1, now.ms, DEAD)).length, 1)
      await queue(store, DEAD, ...several(3, { account: 'one' }), ...several(2))
      now.ms += PATIENCE_MS + 1
      for (const failed of [3, 1]) assert.equal((await failOverdue(store, 0, 'one', 3)).length, failed)
      assert.equal((await store.queuedSuspects()).queued, 0)
      const others = await failOverdue(store, 0)
      assert.deepEqual(
        others.map(({ account }) => account),
        ['acme', 'acme'],
      )
      assert.deepEqual(await store.depth(), { waiting: 0, assigned: 1, oldestCreatedAtMs: null })
      assert.deepEqual(await store.claimsOf('node-a'), [firstClaim(held)])
    },
  )

  on(
    'stores the outcome with the usage and the calls of earlier runs, and owes the callback',
    async (store) => {
      const account = 'other'
      const messages = [{ role: 'user', content: 'x'.repeat(9000) }] as const
      const job = await addHeld(store, { callback: CALLBACK, account, messages })
      await queue(store, DEAD, newJob({ account }))
      const records = [{ error: 'nul \u0000, half \ud800' }]
      const format = { form: 'schema', strict: true }
      const repair = { raw_text: '[', errors: ['cut'] }
      const runs = { calls: 3, records, inputTokens: 40, outputTokens: 2, tries: 1, format, repair }
      const earlierJson = JSON.stringify(runs)
      await store.releaseWaiting('node-a', [waiting({ ...job, attempt: 1 }, { earlierJson })])
      now.ms += PATIENCE_MS + 1
      const failed = await failOverdue(store, 0)
      const usage = { ...USAGE, target: null, input_tokens: 40, output_tokens: 2, calls: 3 }
      const { id: jobId, model, createdAtMs } = job
      assert.deepEqual(
        failed.find((one) => one.jobId === jobId),
        { jobId, account, model, createdAtMs, hasCallback: true, usage },
      )
      assert.equal(failed.length, 2)
      const read = await store.read(account, jobId, expiry())
      assert.deepEqual([read?.status, read?.errorJson], ['failed', JSON.stringify(ERROR)])
      assert.deepEqual((await store.findJob(jobId, expiry()))?.usage, usage)
      const receipt = JSON.parse((await store.jobContent(jobId, expiry()))?.receiptJson ?? '')
      assert.deepEqual(receipt, { ...format, calls: records, calls_omitted: 2, repair })
      const [sums] = await store.listUsage({ account, limit: 5 })
      assert.deepEqual([sums?.jobs, sums?.failedJobs, sums?.calls, sums?.inputTokens], [2, 2, 3, 40])
      assert.equal((await store.quotaUse(account)).openJobs, 0)
      assert.equal((await take(store)).length, 1)
      assert.deepEqual(await failOverdue(store, 0), [])
    },
  )

  on('frees what a job reserved, and counts what its earlier runs cost', async (store) => {
    await addHeld(store, { reserved: 10 })
    const deadlineMs = now.ms
    const untried = await addQueued(store, { reserved: 30, deadlineMs })
    const tried = await addHeld(store, { reserved: 40, deadlineMs })
    const earlierJson = '{"calls":1,"cost":12}'
    await store.releaseWaiting('node-a', [waiting({ ...tried, attempt: 1 }, { earlierJson })])
    assert.equal((await store.quotaUse('acme')).reserved, 80)
    const failed = await store.failOverdue({ route: null, error: ERROR }, now.ms, 10)
    const costs = new Map(failed.map(({ jobId, usage }) => [jobId, usage.cost]))
    assert.deepEqual([costs.get(untried.id), costs.get(tried.id)], [0, 12])
    for (const [jobId, cost] of costs) assert.equal((await store.findJob(jobId, expiry()))?.usage?.cost, cost)
    assert.equal((await store.quotaUse('acme')).reserved, 10)
    const [sum] = await store.listUsage({ limit: 1 })
    assert.deepEqual([sum?.jobs, sum?.failedJobs, sum?.cost], [2, 2, 12])
  })

  on('jobs that fail and jobs that are claimed at the same time are not the same', async (store) => {
    const jobs = await accept(store, several(60), { route: DEAD })
    now.ms += PATIENCE_MS + 1
    const [claims, failures] = await Promise.all([
      Promise.all(Array.from({ length: 6 }, () => claimNext(store, 'node-a', 5, now.ms, DEAD))),
      Promise.all(Array.from({ length: 6 }, () => failedIds(store, 0, null, 5))),
    ])
    const claimed = claims.flat()
    const all = [...ids(claimed), ...failures.flat()]
    assert.equal(new Set(all).size, all.length)
    assert.equal((await store.claimsOf('node-a')).length, claimed.length)
    assert.equal((await store.depth()).waiting, jobs.length - all.length)
    for (const claim of claimed) await store.release('node-a', [claimOf(claim)])
  })
}
