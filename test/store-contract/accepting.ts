/** What every store guarantees about accept. */
import assert from 'node:assert/strict'
import type { Job } from '../../src/job/job.ts'
import type { Store } from '../../src/store/store.ts'
import {
  acceptance,
  claimNext,
  expiry,
  ids,
  newJob,
  now,
  type On,
  START_MS,
  settlement,
  storeEnded,
} from './fixtures.ts'

/** Not whole seconds, because an index in memory counts in seconds. */
const CACHED_MS = 300_500

export function acceptTests(on: On): void {
  on('stores jobs that then read as pending', async (store) => {
    const job = newJob()
    assert.deepEqual(await store.accept(acceptance([job])), { kind: 'accepted' })
    assert.deepEqual(await store.read('acme', job.id, expiry()), {
      id: job.id,
      status: 'pending',
      createdAtMs: START_MS,
      contentJson: null,
      errorJson: null,
      usageJson: null,
      omittedBytes: 0,
    })
  })

  on('stores a handed-off job as assigned to the accepting node, attempt 1', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    assert.equal((await store.read('acme', job.id, expiry()))?.status, 'assigned')
    assert.deepEqual(await claimNext(store, 'node-b', 10), [])
    assert.equal(await store.settle(settlement({ jobId: job.id, attempt: 1 })), 'settled')
  })

  on('stores all jobs of an acceptance or none', async (store) => {
    const [first, twice] = [newJob(), newJob()]
    await assert.rejects(store.accept(acceptance([first, twice, twice])))
    assert.equal(await store.read('acme', first.id, expiry()), null)
    assert.equal((await store.depth()).waiting, 0)
  })

  on('keeps a failing acceptance from its neighbours in the same group', async (store) => {
    const [good, twice, other] = [newJob(), newJob(), newJob()]
    const results = await Promise.allSettled([
      store.accept(acceptance([good])),
      store.accept(acceptance([twice, twice])),
      store.accept(acceptance([other])),
    ])
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    )
    assert.deepEqual(ids(await claimNext(store, 'node-a', 10)).sort(), ids([good, other]).sort())
  })

  on(
    'remembers an idempotency key: the same request, another request, and when it has ended',
    async (store) => {
      const key = { key: 'k1', fingerprint: 'f1', untilMs: now.ms + 1000 }
      const [first, again] = [newJob(), newJob()]
      await store.accept(acceptance([first], { idempotency: key }))
      const repeated = await store.accept(acceptance([again], { idempotency: key }))
      assert.deepEqual(repeated, { kind: 'repeated', jobIds: [first.id] })
      assert.equal(await store.read('acme', again.id, expiry()), null)

      const other = await store.accept(acceptance([newJob()], { idempotency: { ...key, fingerprint: 'f2' } }))
      assert.deepEqual(other, { kind: 'conflict' })

      const otherAccounts = newJob({ account: 'other' })
      assert.deepEqual(await store.accept(acceptance([otherAccounts], { idempotency: key })), {
        kind: 'accepted',
      })

      const later = acceptance([newJob()], {
        idempotency: { ...key, fingerprint: 'f3' },
        nowMs: now.ms + 1001,
      })
      assert.deepEqual(await store.accept(later), { kind: 'accepted' })
    },
  )

  on('finds what an earlier request makes of one with the same key, and stores nothing', async (store) => {
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1000 }
    const job = newJob()
    assert.equal(await store.findEarlier('acme', idempotency, now.ms), null)
    await store.accept(acceptance([job], { idempotency }))
    const find = (account: string, fingerprint: string, atMs: number) =>
      store.findEarlier(account, { ...idempotency, fingerprint }, atMs)
    assert.deepEqual(await find('acme', 'f', now.ms), { kind: 'repeated', jobIds: [job.id] })
    assert.deepEqual(await find('acme', 'g', now.ms), { kind: 'conflict' })
    assert.equal(await find('other', 'f', now.ms), null)
    assert.equal(await find('acme', 'f', now.ms + 1000), null)
    assert.equal((await store.depth()).waiting, 1)
  })

  on('accepts a request again if none of its jobs exists any more', async (store) => {
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1e9 }
    const [first, second, again] = [newJob(), newJob(), newJob()]
    await store.accept(acceptance([first, second], { idempotency, handedOff: true }))
    for (const { id } of [first, second]) await store.settle(settlement({ jobId: id, attempt: 1 }))
    assert.equal(await store.deleteJob(second.id), 'deleted')
    // Accepting it again would run, and charge for, the jobs that exist.
    const repeated = await store.accept(acceptance([again], { idempotency }))
    assert.deepEqual(repeated, { kind: 'repeated', jobIds: ids([first, second]) })
    while (await store.expire(expiry(now.ms + 1e8, 1000)));
    assert.deepEqual(await store.accept(acceptance([again], { idempotency })), { kind: 'accepted' })
    const last = await store.accept(acceptance([newJob()], { idempotency }))
    assert.deepEqual(last, { kind: 'repeated', jobIds: ids([again]) })
  })

  on('stores nothing of an account that does not exist, and what came with it', async (store) => {
    const [good, other] = [newJob(), newJob()]
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1000 }
    const unknown = () => newJob({ account: 'nobody' })
    const results = await Promise.allSettled([
      store.accept(acceptance([good])),
      store.accept(acceptance([unknown(), unknown()])),
      store.accept(acceptance([unknown()], { handedOff: true })),
      store.accept(acceptance([unknown()], { idempotency })),
      store.accept(acceptance([other], { handedOff: true })),
    ])
    assert.deepEqual(
      results.map((result) => (result.status === 'rejected' ? result.reason.name : 'accepted')),
      ['accepted', ...Array.from({ length: 3 }, () => 'UnknownAccount'), 'accepted'],
    )
    const { jobs } = await store.searchJobs({ limit: 10, expiry: expiry() })
    assert.deepEqual(jobs.map(({ id }) => id).sort(), ids([good, other]).sort())
    assert.deepEqual(await store.quotaUse('nobody'), { openJobs: 0, storedBytes: 0 })
    assert.deepEqual(await store.listUsage({ limit: 10 }), [])
  })

  on('lets one of many concurrent acceptances with one key through', async (store) => {
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1000 }
    const jobs = Array.from({ length: 20 }, () => newJob())
    const results = await Promise.all(jobs.map((job) => store.accept(acceptance([job], { idempotency }))))
    assert.equal(results.filter(({ kind }) => kind === 'accepted').length, 1)
    const repeated = results.flatMap((result) => (result.kind === 'repeated' ? result.jobIds : []))
    assert.equal(new Set(repeated).size, 1)
    assert.equal((await store.depth()).waiting, 1)
  })

  on('completes a job by a cached response, with all that settling stores', async (store) => {
    const fingerprint = await cacheResponse(store)
    const callback = { url: 'https://example.com/', headers: {}, payloadJson: '{}' }
    const [awaited, batched] = [newJob({ callback }), newJob()]
    assert.deepEqual(
      await store.accept(acceptance([awaited], { fingerprint, handedOff: true, awaited: true })),
      {
        kind: 'accepted',
        answered: [{ jobId: awaited.id, contentJson: '"Hello back"' }],
      },
    )
    assert.deepEqual(await store.accept(acceptance([batched], { fingerprint })), {
      kind: 'accepted',
      answered: [{ jobId: batched.id, contentJson: null }],
    })
    for (const { id } of [awaited, batched]) {
      const read = await store.read('acme', id, expiry())
      assert.deepEqual([read?.status, read?.contentJson], ['completed', '"Hello back"'])
      assert.equal(await store.settle(settlement({ jobId: id, attempt: 1 })), 'stale')
    }
    assert.deepEqual(await store.depth(), { waiting: 0, assigned: 0, oldestCreatedAtMs: null })
    assert.deepEqual(await claimNext(store, 'node-a', 5), [])
    const [usage] = await store.listUsage({ limit: 2 })
    assert.deepEqual([usage?.jobs, usage?.cacheHits, usage?.calls], [3, 2, 1])
    assert.equal((await store.quotaUse('acme')).openJobs, 0)
    // Its callback is owed, so it does not expire.
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
      const jobs = [newJob(), newJob(), newJob(), newJob()]
      const newJobs = jobs.map((job, index) => ({
        job,
        handedOff: index < 2,
        step: 1000,
        awaited: false,
        route: '',
        fingerprint: index % 2 === 0 ? fingerprint : `other ${index}`,
      }))
      const accepted = await store.accept({ ...acceptance([]), jobs: newJobs })
      assert.deepEqual(accepted.kind === 'accepted' && accepted.answered?.map(({ jobId }) => jobId), [
        jobs[0]?.id,
        jobs[2]?.id,
      ])
      assert.deepEqual(await store.claimsOf('node-a'), [{ jobId: jobs[1]?.id, attempt: 1 }])
      assert.deepEqual(ids(await claimNext(store, 'node-b', 5)), [jobs[3]?.id])
    },
  )

  on(
    'accepts requests with and without cached responses in one group, also with equal keys',
    async (store) => {
      const fingerprint = await cacheResponse(store)
      const idempotency = (key: string) => ({ key, fingerprint: 'f', untilMs: now.ms + 1e9 })
      const [plain, cached, repeated, keyed, mixed, late] = Array.from({ length: 6 }, () => newJob())
      assert.ok(plain && cached && repeated && keyed && mixed && late)
      const batch = acceptance([mixed, newJob()], {
        fingerprint: 'g'.repeat(22),
        idempotency: idempotency('b'),
      })
      const accepted = await Promise.all([
        store.accept(acceptance([plain], { handedOff: true })),
        store.accept(acceptance([cached], { fingerprint, awaited: true, idempotency: idempotency('a') })),
        store.accept(acceptance([repeated], { fingerprint, awaited: true, idempotency: idempotency('a') })),
        store.accept(acceptance([keyed], { idempotency: idempotency('k') })),
        store.accept({
          ...batch,
          jobs: batch.jobs.map((job, index) => (index === 0 ? job : { ...job, fingerprint })),
        }),
      ])
      const kinds = accepted.map((one) => [one.kind, 'answered' in one ? one.answered?.length : 0])
      assert.deepEqual(kinds, [
        ['accepted', 0],
        ['accepted', 1],
        ['repeated', 0],
        ['accepted', 0],
        ['accepted', 1],
      ])
      assert.deepEqual(await store.depth(), { waiting: 2, assigned: 1, oldestCreatedAtMs: keyed.createdAtMs })
      assert.deepEqual(await store.accept(acceptance([late], { idempotency: idempotency('b') })), {
        kind: 'repeated',
        jobIds: batch.jobs.map(({ job }) => job.id),
      })
      // Those with a cached response, and the one that it is from.
      assert.equal((await store.used('acme', '2026-01')).jobs, 3)
      assert.equal((await store.quotaUse('acme')).openJobs, 3)
    },
  )

  on('does not complete a job by a cached response that has expired or is another one', async (store) => {
    const fingerprint = await cacheResponse(store)
    const job = newJob()
    assert.deepEqual(await store.accept(acceptance([job], { fingerprint: 'f'.repeat(22) })), {
      kind: 'accepted',
    })
    const later = acceptance([newJob({ reserved: 9 })], { fingerprint, nowMs: now.ms + CACHED_MS })
    assert.deepEqual(await store.accept({ ...later, costCap: 8 }), { kind: 'over cost cap', used: 0 })
    assert.deepEqual(await store.accept({ ...later, costCap: 9 }), { kind: 'accepted' })
    assert.equal((await store.depth()).waiting, 2)
  })

  on('remembers the key of a request that a cached response completed', async (store) => {
    const fingerprint = await cacheResponse(store)
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1e9 }
    const first = newJob()
    const accepted = await store.accept(acceptance([first], { fingerprint, idempotency, awaited: true }))
    assert.equal(accepted.kind === 'accepted' && accepted.answered?.length, 1)
    const [again, other] = await Promise.all([
      store.accept(acceptance([newJob()], { fingerprint, idempotency })),
      store.accept(
        acceptance([newJob()], { fingerprint, idempotency: { ...idempotency, fingerprint: 'g' } }),
      ),
    ])
    assert.deepEqual([again, other], [{ kind: 'repeated', jobIds: [first.id] }, { kind: 'conflict' }])
    assert.equal((await store.used('acme', '2026-01')).jobs, 2)
  })

  on('decides requests with keys in one group like one after the other', async (store) => {
    const key = (name: string, fingerprint = 'f') => ({ key: name, fingerprint, untilMs: now.ms + 1e9 })
    const jobs = Array.from({ length: 6 }, () => newJob())
    const [one, two, three, four, five, six] = jobs as [Job, Job, Job, Job, Job, Job]
    const results = await Promise.all([
      store.accept(acceptance([one], { idempotency: key('a') })),
      store.accept(acceptance([two])),
      store.accept(acceptance([three], { idempotency: key('a') })),
      store.accept(acceptance([four], { idempotency: key('a', 'g') })),
      store.accept(acceptance([five], { idempotency: key('b'), handedOff: true })),
      store.accept(acceptance([six], { idempotency: key('b') })),
    ])
    assert.deepEqual(results, [
      { kind: 'accepted' },
      { kind: 'accepted' },
      { kind: 'repeated', jobIds: [one.id] },
      { kind: 'conflict' },
      { kind: 'accepted' },
      { kind: 'repeated', jobIds: [five.id] },
    ])
    assert.deepEqual(ids(await claimNext(store, 'node-b', 9)).sort(), ids([one, two]).sort())
  })

  on('accepts a request whose key came with one that is rejected', async (store) => {
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1e9 }
    const [twice, good] = [newJob(), newJob()]
    const results = await Promise.allSettled([
      store.accept(acceptance([twice, twice], { idempotency })),
      store.accept(acceptance([good], { idempotency })),
      store.accept(acceptance([newJob()], { idempotency })),
    ])
    assert.deepEqual(
      results.map((result) => (result.status === 'rejected' ? 'rejected' : result.value)),
      ['rejected', { kind: 'accepted' }, { kind: 'repeated', jobIds: [good.id] }],
    )
  })
}

/** Caches the answer of a job of `acme` for five minutes, and returns its fingerprint. */
async function cacheResponse(store: Store): Promise<string> {
  const job = newJob()
  const cache = { fingerprint: 'e'.repeat(22), untilMs: now.ms + CACHED_MS }
  await storeEnded(store, job, settlement({ jobId: job.id, attempt: 1 }, { cache }))
  return cache.fingerprint
}
