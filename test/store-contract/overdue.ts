/** What every store guarantees about jobs that have waited too long for model servers. */
import assert from 'node:assert/strict'
import type { Job, JobError } from '../../src/job/job.ts'
import type { Store } from '../../src/store/store.ts'
import { take } from './callback-fixtures.ts'
import { acceptance, addAccounts, claimNext, claimOf, expiry, newJob, now, type On } from './fixtures.ts'
import { several, waiting } from './routes.ts'

const [DEAD, LIVE] = ['dead/m', 'live/m']
const PATIENCE_MS = 3_600_000
const ERROR: JobError = { code: 'model_error', message: 'No model server could be called.' }

async function queue(store: Store, route: string, ...jobs: readonly Job[]): Promise<void> {
  for (const job of jobs) await store.accept(acceptance([job], { route }))
}

const failOverdue = (store: Store, unavailableSinceMs: number, account: string | null = null, limit = 100) =>
  store.failOverdue(
    { route: DEAD, account, unavailableSinceMs, patienceMs: PATIENCE_MS, error: ERROR },
    now.ms,
    limit,
  )

const failedIds = async (...args: Parameters<typeof failOverdue>) =>
  (await failOverdue(...args)).map(({ jobId }) => jobId).toSorted()

export function overdueTests(on: On): void {
  on(
    'fails queued jobs whose deadline has passed, also those that waited or crashed, and no others',
    async (store) => {
      const error: JobError = { code: 'deadline_exceeded', message: 'Too late.' }
      const fail = async (limit = 100) =>
        (await store.failOverdue({ route: null, error }, now.ms, limit)).map(({ jobId }) => jobId)
      const dueIn = (ms: number) => newJob({ deadlineMs: now.ms + ms })
      const [held, waited, returned] = [dueIn(1000), dueIn(2000), dueIn(3000)]
      await queue(store, DEAD, held, waited, returned)
      const claimed = await claimNext(store, 'node-a', 3, now.ms, DEAD)
      assert.deepEqual(
        claimed.map(({ deadlineMs }) => deadlineMs),
        [held, waited, returned].map(({ deadlineMs }) => deadlineMs),
      )
      assert.equal((await store.queued()).nextDeadlineMs, null)
      const wait = { route: LIVE, earlierJson: '{"calls":1}', sinceMs: now.ms, waitedMs: 0 }
      await store.releaseWaiting('node-a', [{ jobId: waited.id, attempt: 1, ...wait }])
      await store.release('node-a', [{ jobId: returned.id, attempt: 1 }])
      const [first, second, last, never] = [dueIn(10_000), dueIn(10_000), dueIn(20_000), newJob()]
      await queue(store, LIVE, first, second, last, never)
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
      const [before, other] = [newJob(), newJob()]
      await queue(store, DEAD, before)
      await queue(store, LIVE, other)
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
    await store.release('node-a', [{ jobId: job.id, attempt: 1 }])
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
      await queue(store, DEAD, ...several(3, 'one'), ...several(2))
      now.ms += PATIENCE_MS + 1
      assert.equal((await failOverdue(store, 0, 'one', 3)).length, 3)
      assert.equal((await failOverdue(store, 0, 'one', 3)).length, 1)
      assert.deepEqual((await store.queuedSuspects()).queued, 0)
      assert.deepEqual(
        (await failOverdue(store, 0)).map(({ account }) => account),
        ['acme', 'acme'],
      )
      const { waiting, assigned } = await store.depth()
      assert.deepEqual([waiting, assigned], [0, 1])
      assert.deepEqual(await store.claimsOf('node-a'), [{ jobId: held.id, attempt: 1 }])
    },
  )

  on(
    'stores the outcome with the usage and the calls of earlier runs, and owes the callback',
    async (store) => {
      const callback = { url: 'https://example.com/', headers: {}, payloadJson: '1' }
      const job = newJob({
        callback,
        account: 'other',
        messages: [{ role: 'user', content: 'x'.repeat(9000) }],
      })
      const untried = newJob({ account: 'other' })
      await store.accept(acceptance([job], { handedOff: true, route: DEAD }))
      await queue(store, DEAD, untried)
      const records = [{ error: 'nul \u0000, half \ud800' }]
      const [format, repair] = [
        { form: 'schema', strict: true },
        { raw_text: '[', errors: ['cut'] },
      ]
      const runs = { calls: 3, records, inputTokens: 40, outputTokens: 2, tries: 1, format, repair }
      const earlierJson = JSON.stringify(runs)
      await store.releaseWaiting('node-a', [waiting({ id: job.id, attempt: 1 }, { earlierJson })])
      now.ms += PATIENCE_MS + 1
      const failed = await failOverdue(store, 0)
      const usage = {
        target: null,
        input_tokens: 40,
        output_tokens: 2,
        calls: 3,
        cache_hit: false,
        repaired: false,
      }
      const { model, createdAtMs } = job
      assert.deepEqual(
        failed.find(({ jobId }) => jobId === job.id),
        { jobId: job.id, account: 'other', model, createdAtMs, hasCallback: true, usage },
      )
      assert.equal(failed.length, 2)
      const read = await store.read('other', job.id, expiry())
      assert.deepEqual([read?.status, read?.errorJson], ['failed', JSON.stringify(ERROR)])
      const details = await store.findJob(job.id, expiry())
      assert.deepEqual(details?.usage, usage)
      assert.deepEqual(JSON.parse((await store.jobContent(job.id, expiry()))?.receiptJson ?? ''), {
        ...format,
        calls: records,
        calls_omitted: 2,
        repair,
      })
      const [sums] = await store.listUsage({ account: 'other', limit: 5 })
      assert.deepEqual([sums?.jobs, sums?.failedJobs, sums?.calls, sums?.inputTokens], [2, 2, 3, 40])
      assert.equal((await store.quotaUse('other')).openJobs, 0)
      assert.equal((await take(store)).length, 1)
      assert.deepEqual(await failOverdue(store, 0), [])
    },
  )

  on('frees what a job reserved, and counts what its earlier runs cost', async (store) => {
    await store.accept(acceptance([newJob({ reserved: 10 })], { handedOff: true }))
    const deadlineMs = now.ms
    const [untried, tried] = [newJob({ reserved: 30, deadlineMs }), newJob({ reserved: 40, deadlineMs })]
    await store.accept(acceptance([untried]))
    await store.accept(acceptance([tried], { handedOff: true }))
    const earlierJson = '{"calls":1,"cost":12}'
    await store.releaseWaiting('node-a', [waiting({ id: tried.id, attempt: 1 }, { earlierJson })])
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
    const jobs = several(60)
    await store.accept(acceptance(jobs, { route: DEAD }))
    now.ms += PATIENCE_MS + 1
    const [claims, failures] = await Promise.all([
      Promise.all(Array.from({ length: 6 }, () => claimNext(store, 'node-a', 5, now.ms, DEAD))),
      Promise.all(Array.from({ length: 6 }, () => failedIds(store, 0, null, 5))),
    ])
    const all = [...claims.flat().map(({ id }) => id), ...failures.flat()]
    assert.equal(new Set(all).size, all.length)
    assert.equal((await store.claimsOf('node-a')).length, claims.flat().length)
    const { waiting } = await store.depth()
    assert.equal(waiting, jobs.length - all.length)
    for (const claim of claims.flat()) await store.release('node-a', [claimOf(claim)])
  })
}
