/** What every store guarantees about deleting: nothing of the job, or of the account, is left. */
import assert from 'node:assert/strict'
import type { Store } from '../../src/store/store.ts'
import { acceptance, addAccounts, expiry, newJob, now, type On, settlement } from './fixtures.ts'

const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

export function deleteTests(on: On): void {
  const callback = { url: 'https://example.com/', headers: {}, payloadJson: '{}' }
  const keep = { fingerprint: 'f'.repeat(22), untilMs: 0 }
  const ended = async (store: Store, account = 'acme') => {
    const job = newJob({ account, callback })
    await store.accept(acceptance([job], { handedOff: true }))
    const kept = { ...keep, untilMs: now.ms + 300_000 }
    await store.settle(settlement({ jobId: job.id, attempt: 1 }, { cache: kept }))
    return job
  }
  /** Deletes all jobs of an account, as deleting the account does. */
  const deleteAll = async (store: Store, account: string) => {
    const sums = { deleted: 0, open: 0 }
    for (let after: string | null = BEFORE_ALL; after !== null; ) {
      const some = await store.deleteJobsOf(account, after)
      sums.deleted += some.deleted
      sums.open += some.open
      after = some.next
    }
    return sums
  }

  on(
    'deletes an ended job with its cached response and its callback, and leaves its usage',
    async (store) => {
      const job = await ended(store)
      assert.equal(await store.deleteJob(job.id), 'deleted')
      assert.equal(await store.read('acme', job.id, expiry()), null)
      assert.equal(await store.findJob(job.id, expiry()), null)
      assert.equal(await store.findResponse(keep.fingerprint, now.ms), null)
      assert.equal(await store.findCallback(job.id), null)
      assert.equal((await store.callbackDepth()).owed, 0)
      assert.equal(await store.deleteJob(job.id), 'unknown')
      assert.equal((await store.listUsage({ limit: 10 }))[0]?.jobs, 1)
    },
  )

  on('does not delete a queued or running job', async (store) => {
    const [waiting, running] = [newJob(), newJob()]
    await store.accept(acceptance([waiting]))
    await store.accept(acceptance([running], { handedOff: true }))
    assert.equal(await store.deleteJob(waiting.id), 'not ended')
    assert.equal(await store.deleteJob(running.id), 'not ended')
    assert.equal((await store.read('acme', waiting.id, expiry()))?.status, 'pending')
  })

  on('deletes the ended jobs of one account only', async (store) => {
    const mine = [await ended(store), await ended(store), await ended(store)]
    const other = await ended(store, 'other')
    const open = newJob()
    await store.accept(acceptance([open]))
    assert.deepEqual(await deleteAll(store, 'acme'), { deleted: 3, open: 1 })
    for (const job of mine) assert.equal(await store.findJob(job.id, expiry()), null)
    assert.equal((await store.read('other', other.id, expiry()))?.status, 'completed')
    assert.equal((await store.read('acme', open.id, expiry()))?.status, 'pending')
    assert.deepEqual(await deleteAll(store, 'nobody'), { deleted: 0, open: 0 })
  })

  on('scans more jobs than one step takes', async (store) => {
    const jobs = Array.from({ length: 4500 }, (_, at) => newJob({ account: at % 3 === 0 ? 'acme' : 'other' }))
    for (let from = 0; from < jobs.length; from += 500) {
      await store.accept(acceptance(jobs.slice(from, from + 500)))
    }
    const cancel = { account: 'acme', running: false, beforeJobId: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }
    while ((await store.cancelJobs({ ...cancel, limit: 400, nowMs: now.ms })) === 400);
    while ((await store.takeCancelled('node-a')).length > 0);
    assert.deepEqual(await deleteAll(store, 'acme'), { deleted: 1500, open: 0 })
    assert.equal((await store.depth()).waiting, 3000)
  })

  on(
    'deletes an account with its keys and the keys of its requests, and keeps its usage under another name',
    async (store) => {
      const job = newJob()
      const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1000 }
      await store.accept(acceptance([job], { idempotency, handedOff: true }))
      await store.settle(settlement({ jobId: job.id, attempt: 1 }))
      await ended(store, 'other')
      await deleteAll(store, 'acme')
      assert.equal(await store.deleteAccount('acme', 'deleted-1'), 'deleted')
      assert.equal(await store.deleteAccount('acme', 'deleted-2'), 'unknown')
      assert.equal(await store.findKey('hash of acme'), null)
      assert.equal(await store.secrets('acme'), null)
      assert.deepEqual(
        (await store.listUsage({ limit: 10 })).map(({ account, jobs }) => [account, jobs]),
        [
          ['deleted-1', 1],
          ['other', 1],
        ],
      )
      assert.ok(await store.findKey('hash of other'))
      // A new account of the same name is a different account, so the idempotency key is free again.
      await addAccounts(store, 'acme')
      const again = await store.accept(
        acceptance([newJob()], { idempotency: { ...idempotency, fingerprint: 'g' } }),
      )
      assert.equal(again.kind, 'accepted')
    },
  )

  on('the usage of a job that is settled just before its account is deleted moves, too', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    const [, deleted] = await Promise.all([
      store.settle(settlement({ jobId: job.id, attempt: 1 })),
      store.deleteAccount('acme', 'deleted-1'),
    ])
    if (deleted === 'has open jobs') assert.equal(await store.deleteAccount('acme', 'deleted-1'), 'deleted')
    const usage = await store.listUsage({ limit: 10 })
    assert.deepEqual(
      usage.map(({ account, jobs }) => [account, jobs]),
      [['deleted-1', 1]],
    )
  })

  on('a callback that is owed when its account is deleted is not taken', async (store) => {
    const { id } = await ended(store)
    assert.equal(await store.deleteAccount('acme', 'deleted-1'), 'deleted')
    const callback = { queue: 'first', limit: 9, nowMs: now.ms, leaseUntilMs: now.ms } as const
    assert.deepEqual(await store.takeCallbacks({ ...callback, node: 'node-a' }), [])
    assert.equal((await store.callbackDepth()).owed, 0)
    assert.deepEqual(await store.findMissing([id]), [])
  })

  on('does not delete an account with open jobs', async (store) => {
    const [queued, held] = [newJob(), newJob({ account: 'other' })]
    await store.accept(acceptance([queued]))
    await store.accept(acceptance([held], { handedOff: true }))
    for (const account of ['acme', 'other']) {
      assert.equal(await store.deleteAccount(account, 'deleted-1'), 'has open jobs')
      assert.notEqual(await store.secrets(account), null)
    }
    await store.settle(settlement({ jobId: held.id, attempt: 1 }))
    assert.equal(await store.deleteAccount('other', 'deleted-1'), 'deleted')
    assert.equal(await store.deleteAccount('acme', 'deleted-1'), 'has open jobs')
  })

  on('scrubs while it keeps serving', async (store) => {
    const job = await ended(store)
    await store.deleteJob(job.id)
    await Promise.all([store.scrub(), store.accept(acceptance([newJob()]))])
    assert.equal((await store.depth()).waiting, 1)
  })
}
