/** Tests what every store guarantees about accept. */
import assert from 'node:assert/strict'
import type { Job } from '../../src/job/job.ts'
import type { Store } from '../../src/store/store.ts'
import { CALLBACK } from './callback-fixtures.ts'
import {
  type AcceptanceFields,
  acceptance,
  EMPTY,
  expiry,
  ids,
  newJob,
  now,
  type On,
  START_MS,
  several,
} from './fixtures.ts'
import { accept, addEnded, addHeld, claimNext, settle } from './steps.ts'

/** An index in memory counts in seconds, so the tests use a time that is not whole seconds. */
const CACHED_MS = 300_500
const ACCEPTED = { kind: 'accepted' }
const CONFLICT = { kind: 'conflict' }
const repeated = (...jobs: readonly Job[]) => ({ kind: 'repeated', jobIds: ids(jobs) })
const keyed = (key = 'k', fingerprint = 'f') => ({ key, fingerprint, untilMs: now.ms + 1e9 })

export function acceptTests(on: On): void {
  /** Unlike `accept`, this request may be rejected. */
  const request = (store: Store, jobs: readonly Job[], over: AcceptanceFields = {}) =>
    store.accept(acceptance(jobs, over))

  on('stores jobs that then read as pending', async (store) => {
    const job = newJob()
    assert.deepEqual(await request(store, [job]), ACCEPTED)
    const nothing = { contentJson: null, errorJson: null, usageJson: null, omittedBytes: 0 }
    const pending = { id: job.id, status: 'pending', createdAtMs: START_MS, ...nothing }
    assert.deepEqual(await store.read('acme', job.id, expiry()), pending)
  })

  on('stores a handed-off job as assigned to the accepting node, attempt 1', async (store) => {
    const job = await addHeld(store)
    assert.equal((await store.read('acme', job.id, expiry()))?.status, 'assigned')
    assert.deepEqual(await claimNext(store, 'node-b', 10), [])
    assert.equal(await settle(store, job), 'settled')
  })

  on('stores all jobs of an acceptance or none', async (store) => {
    const [first, twice] = [newJob(), newJob()]
    await assert.rejects(request(store, [first, twice, twice]))
    assert.equal(await store.read('acme', first.id, expiry()), null)
    assert.equal((await store.depth()).waiting, 0)
  })

  on('keeps a failing acceptance from its neighbours in the same group', async (store) => {
    const [good, twice, other] = [newJob(), newJob(), newJob()]
    const groups = [[good], [twice, twice], [other]]
    const results = await Promise.allSettled(groups.map((jobs) => request(store, jobs)))
    const statuses = results.map(({ status }) => status)
    assert.deepEqual(statuses, ['fulfilled', 'rejected', 'fulfilled'])
    assert.deepEqual(ids(await claimNext(store, 'node-a', 10)).sort(), ids([good, other]).sort())
  })

  on(
    'remembers an idempotency key: the same request, another request, and when it has ended',
    async (store) => {
      const idempotency = { ...keyed(), untilMs: now.ms + 1000 }
      const [first, again] = [newJob(), newJob()]
      await accept(store, [first], { idempotency })
      assert.deepEqual(await request(store, [again], { idempotency }), repeated(first))
      assert.equal(await store.read('acme', again.id, expiry()), null)
      const different = { idempotency: { ...idempotency, fingerprint: 'g' } }
      assert.deepEqual(await request(store, [newJob()], different), CONFLICT)
      assert.deepEqual(await request(store, [newJob({ account: 'other' })], { idempotency }), ACCEPTED)
      assert.deepEqual(await request(store, [newJob()], { ...different, nowMs: now.ms + 1001 }), ACCEPTED)
    },
  )

  on('finds what an earlier request makes of one with the same key, and stores nothing', async (store) => {
    const idempotency = { ...keyed(), untilMs: now.ms + 1000 }
    assert.equal(await store.findEarlier('acme', idempotency, now.ms), null)
    const [job] = await accept(store, [newJob()], { idempotency })
    const find = (account: string, fingerprint: string, atMs = now.ms) =>
      store.findEarlier(account, { ...idempotency, fingerprint }, atMs)
    assert.deepEqual(await find('acme', 'f'), repeated(job))
    assert.deepEqual(await find('acme', 'g'), CONFLICT)
    assert.equal(await find('other', 'f'), null)
    assert.equal(await find('acme', 'f', now.ms + 1000), null)
    assert.equal((await store.depth()).waiting, 1)
  })

  on('accepts a request again if none of its jobs exists any more', async (store) => {
    const idempotency = keyed()
    const jobs = await accept(store, several(2), { idempotency, handedOff: true })
    for (const job of jobs) await settle(store, job)
    assert.equal(await store.deleteJob(jobs[1]?.id ?? ''), 'deleted')
    const again = newJob()
    // Accepting the request again would run, and charge for, the jobs that exist.
    assert.deepEqual(await request(store, [again], { idempotency }), repeated(...jobs))
    while (await store.expire(expiry(now.ms + 1e8, 1000)));
    assert.deepEqual(await request(store, [again], { idempotency }), ACCEPTED)
    assert.deepEqual(await request(store, [newJob()], { idempotency }), repeated(again))
  })

  on('stores nothing of an account that does not exist, and what came with it', async (store) => {
    const [good, other] = [newJob(), newJob()]
    const unknown = (count = 1) => several(count, { account: 'nobody' })
    const results = await Promise.allSettled([
      request(store, [good]),
      request(store, unknown(2)),
      request(store, unknown(), { handedOff: true }),
      request(store, unknown(), { idempotency: keyed() }),
      request(store, [other], { handedOff: true }),
    ])
    const names = results.map((result) => (result.status === 'rejected' ? result.reason.name : 'accepted'))
    assert.deepEqual(names, ['accepted', ...Array(3).fill('UnknownAccount'), 'accepted'])
    const { jobs } = await store.searchJobs({ limit: 10, expiry: expiry() })
    assert.deepEqual(ids(jobs).sort(), ids([good, other]).sort())
    assert.deepEqual(await store.quotaUse('nobody'), { openJobs: 0, storedBytes: 0 })
    assert.deepEqual(await store.listUsage({ limit: 10 }), [])
  })

  on('lets one of many concurrent acceptances with one key through', async (store) => {
    const results = await Promise.all(
      several(20).map((job) => request(store, [job], { idempotency: keyed() })),
    )
    assert.equal(results.filter(({ kind }) => kind === 'accepted').length, 1)
    const known = results.flatMap((result) => (result.kind === 'repeated' ? result.jobIds : []))
    assert.equal(new Set(known).size, 1)
    assert.equal((await store.depth()).waiting, 1)
  })

  on('completes a job by a cached response, with all that settling stores', async (store) => {
    const fingerprint = await cacheResponse(store)
    const [awaited, batched] = [newJob({ callback: CALLBACK }), newJob()]
    const answered = (job: Job, contentJson: string | null) => {
      return { ...ACCEPTED, answered: [{ jobId: job.id, contentJson }] }
    }
    const first = await request(store, [awaited], { fingerprint, handedOff: true, awaited: true })
    assert.deepEqual(first, answered(awaited, '"Hello back"'))
    assert.deepEqual(await request(store, [batched], { fingerprint }), answered(batched, null))
    for (const job of [awaited, batched]) {
      const read = await store.read('acme', job.id, expiry())
      assert.deepEqual([read?.status, read?.contentJson], ['completed', '"Hello back"'])
      assert.equal(await settle(store, job), 'stale')
    }
    assert.deepEqual(await store.depth(), EMPTY)
    assert.deepEqual(await claimNext(store, 'node-a', 5), [])
    const [usage] = await store.listUsage({ limit: 2 })
    assert.deepEqual([usage?.jobs, usage?.cacheHits, usage?.calls], [3, 2, 1])
    assert.equal((await store.quotaUse('acme')).openJobs, 0)
    // The job's callback is pending, so the job does not expire.
    assert.ok(await store.read('acme', awaited.id, expiry(now.ms + 1e12, 1)))
  })

  on('a cached response costs nothing: it needs no budget, and its usage says so', async (store) => {
    const fingerprint = await cacheResponse(store)
    const create = (plain: Job, ...cached: readonly Job[]) => {
      const { jobs, ...rest } = acceptance([plain, ...cached])
      const some = jobs.map((one) => ({ ...one, fingerprint: one.job === plain ? null : fingerprint }))
      return store.accept({ ...rest, jobs: some, costCap: 50 })
    }
    const [priced, unpriced] = [newJob({ reserved: 90 }), newJob()]
    const accepted = await create(newJob({ reserved: 40 }), priced, unpriced)
    assert.equal(accepted.kind === 'accepted' && accepted.answered?.length, 2)
    assert.equal((await store.quotaUse('acme')).reserved, 40)
    const rejected = await create(newJob({ reserved: 11 }), newJob({ reserved: 90 }))
    assert.deepEqual(rejected, { kind: 'over cost cap', used: 40 })
    const usageOf = async ({ id }: Job) => (await store.findJob(id, expiry()))?.usage
    assert.deepEqual([(await usageOf(priced))?.cost, (await usageOf(priced))?.cache_hit], [0, true])
    assert.equal((await usageOf(unpriced))?.cost, undefined)
    const [usage] = await store.listUsage({ limit: 1 })
    assert.deepEqual([usage?.jobs, usage?.cacheHits, usage?.cost], [3, 2, 0])
  })

  on(
    'completes some jobs of a batch by cached responses, and queues and hands off the others',
    async (store) => {
      const fingerprint = await cacheResponse(store)
      const [one, two, three, four] = [newJob(), newJob(), newJob(), newJob()]
      const newJobs = acceptance([one, two, three, four]).jobs.map((newOne, index) => ({
        ...newOne,
        handedOff: index < 2,
        fingerprint: index % 2 === 0 ? fingerprint : `other ${index}`,
      }))
      const accepted = await store.accept({ ...acceptance([]), jobs: newJobs })
      const answered = accepted.kind === 'accepted' && accepted.answered?.map(({ jobId }) => jobId)
      assert.deepEqual(answered, [one.id, three.id])
      assert.deepEqual(await store.claimsOf('node-a'), [{ jobId: two.id, attempt: 1 }])
      assert.deepEqual(ids(await claimNext(store, 'node-b', 5)), [four.id])
    },
  )

  on(
    'accepts requests with and without cached responses in one group, also with equal keys',
    async (store) => {
      const fingerprint = await cacheResponse(store)
      const [plain, cached, again, queued] = [newJob(), newJob(), newJob(), newJob()]
      const mixed = several(2)
      const batch = acceptance(mixed, { fingerprint: 'g'.repeat(22), idempotency: keyed('b') })
      const [first, second] = batch.jobs
      assert.ok(first && second)
      const accepted = await Promise.all([
        request(store, [plain], { handedOff: true }),
        request(store, [cached], { fingerprint, awaited: true, idempotency: keyed('a') }),
        request(store, [again], { fingerprint, awaited: true, idempotency: keyed('a') }),
        request(store, [queued], { idempotency: keyed('k') }),
        store.accept({ ...batch, jobs: [first, { ...second, fingerprint }] }),
      ])
      const kinds = accepted.map((one) => [one.kind, 'answered' in one ? one.answered?.length : 0])
      assert.deepEqual(
        kinds.map((kind) => kind.join()),
        ['accepted,0', 'accepted,1', 'repeated,0', 'accepted,0', 'accepted,1'],
      )
      const depth = { waiting: 2, assigned: 1, oldestCreatedAtMs: queued.createdAtMs }
      assert.deepEqual(await store.depth(), depth)
      assert.deepEqual(await request(store, [newJob()], { idempotency: keyed('b') }), repeated(...mixed))
      // The jobs with a cached response count, and so does the job whose response they got.
      assert.equal((await store.used('acme', '2026-01')).jobs, 3)
      assert.equal((await store.quotaUse('acme')).openJobs, 3)
    },
  )

  on('does not complete a job by a cached response that has expired or is another one', async (store) => {
    const fingerprint = await cacheResponse(store)
    assert.deepEqual(await request(store, [newJob()], { fingerprint: 'f'.repeat(22) }), ACCEPTED)
    const later = acceptance([newJob({ reserved: 9 })], { fingerprint, nowMs: now.ms + CACHED_MS })
    assert.deepEqual(await store.accept({ ...later, costCap: 8 }), { kind: 'over cost cap', used: 0 })
    assert.deepEqual(await store.accept({ ...later, costCap: 9 }), ACCEPTED)
    assert.equal((await store.depth()).waiting, 2)
  })

  on('remembers the key of a request that a cached response completed', async (store) => {
    const fingerprint = await cacheResponse(store)
    const first = newJob()
    const accepted = await request(store, [first], { fingerprint, idempotency: keyed(), awaited: true })
    assert.equal(accepted.kind === 'accepted' && accepted.answered?.length, 1)
    const others = [keyed(), keyed('k', 'g')].map((idempotency) =>
      request(store, [newJob()], { fingerprint, idempotency }),
    )
    assert.deepEqual(await Promise.all(others), [repeated(first), CONFLICT])
    assert.equal((await store.used('acme', '2026-01')).jobs, 2)
  })

  on('decides requests with keys in one group like one after the other', async (store) => {
    const jobs = several(6)
    const [one, two, , , five] = jobs as [Job, Job, Job, Job, Job]
    const keys = [keyed('a'), null, keyed('a'), keyed('a', 'g'), keyed('b'), keyed('b')]
    const results = await Promise.all(
      jobs.map((job, at) =>
        request(store, [job], { idempotency: keys[at] ?? null, handedOff: job === five }),
      ),
    )
    assert.deepEqual(results, [ACCEPTED, ACCEPTED, repeated(one), CONFLICT, ACCEPTED, repeated(five)])
    assert.deepEqual(ids(await claimNext(store, 'node-b', 9)).sort(), ids([one, two]).sort())
  })

  on('accepts a request whose key came with one that is rejected', async (store) => {
    const [twice, good] = [newJob(), newJob()]
    const results = await Promise.allSettled(
      [[twice, twice], [good], [newJob()]].map((jobs) => request(store, jobs, { idempotency: keyed() })),
    )
    const seen = results.map((result) => (result.status === 'rejected' ? 'rejected' : result.value))
    assert.deepEqual(seen, ['rejected', ACCEPTED, repeated(good)])
  })
}

async function cacheResponse(store: Store): Promise<string> {
  const cache = { fingerprint: 'e'.repeat(22), untilMs: now.ms + CACHED_MS }
  await addEnded(store, {}, { cache })
  return cache.fingerprint
}
