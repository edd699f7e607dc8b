/** Tests what every store guarantees about expiring and deleting: nothing of the job, or of the account, is left. */
import assert from 'node:assert/strict'
import { AFTER_ALL, BEFORE_ALL } from '../../src/store/chunked-search.ts'
import type { Store } from '../../src/store/store.ts'
import { CALLBACK, take } from './callback-fixtures.ts'
import { acceptance, DAY_MS, expiry, newJob, now, type On, several } from './fixtures.ts'
import { accept, addAccounts, addEnded, addHeld, addQueued, settle } from './steps.ts'

const FINGERPRINT = 'f'.repeat(22)

export function deleteTests(on: On): void {
  const ended = (store: Store, account = 'acme') => {
    const cache = { fingerprint: FINGERPRINT, untilMs: now.ms + 300_000 }
    return addEnded(store, { account, callback: CALLBACK }, { cache })
  }
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
  const countedJobs = async (store: Store) =>
    (await store.listUsage({ limit: 10 })).map(({ account, jobs }) => `${account} ${jobs}`)

  on(
    'deletes an ended job with its cached response and its callback, and leaves its usage',
    async (store) => {
      const cache = { fingerprint: 'g'.repeat(22), untilMs: now.ms + 300_000 }
      const [job] = [await ended(store), await addEnded(store, {}, { cache })]
      assert.equal(await store.deleteJob(job.id), 'deleted')
      assert.equal(await store.read('acme', job.id, expiry()), null)
      assert.equal(await store.findJob(job.id, expiry()), null)
      assert.equal(await store.findResponse(FINGERPRINT, now.ms), null)
      assert.ok(await store.findResponse(cache.fingerprint, now.ms), 'the response of another job stays')
      assert.equal(await store.findCallback(job.id), null)
      assert.equal((await store.callbackDepth()).owed, 0)
      assert.equal(await store.deleteJob(job.id), 'unknown')
      assert.deepEqual(await countedJobs(store), ['acme 2'])
    },
  )

  on('does not delete a queued or running job', async (store) => {
    const [queued, running] = [await addQueued(store), await addHeld(store)]
    for (const { id } of [queued, running]) assert.equal(await store.deleteJob(id), 'not ended')
    assert.equal((await store.read('acme', queued.id, expiry()))?.status, 'pending')
  })

  on('deletes the ended jobs of one account only', async (store) => {
    const mine = [await ended(store), await ended(store), await ended(store)]
    const other = await ended(store, 'other')
    const open = await addQueued(store)
    assert.deepEqual(await deleteAll(store, 'acme'), { deleted: 3, open: 1 })
    for (const job of mine) assert.equal(await store.findJob(job.id, expiry()), null)
    assert.equal((await store.read('other', other.id, expiry()))?.status, 'completed')
    assert.equal((await store.read('acme', open.id, expiry()))?.status, 'pending')
    assert.deepEqual(await deleteAll(store, 'nobody'), { deleted: 0, open: 0 })
  })

  on('scans more jobs than one step takes', async (store) => {
    const jobs = Array.from({ length: 2100 }, (_, at) => newJob({ account: at % 3 === 0 ? 'acme' : 'other' }))
    for (let from = 0; from < jobs.length; from += 500) await accept(store, jobs.slice(from, from + 500))
    const cancel = { account: 'acme', running: false, beforeJobId: AFTER_ALL }
    while ((await store.cancelJobs({ ...cancel, limit: 400, nowMs: now.ms })) === 400);
    while ((await store.takeCancelled('node-a')).length > 0);
    assert.deepEqual(await deleteAll(store, 'acme'), { deleted: 700, open: 0 })
    assert.equal((await store.depth()).waiting, 1400)
  })

  on(
    'deletes an account with its keys and the keys of its requests, and keeps its usage under another name',
    async (store) => {
      const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1000 }
      const [job] = await accept(store, [newJob()], { idempotency, handedOff: true })
      await settle(store, job)
      await ended(store, 'other')
      await deleteAll(store, 'acme')
      assert.equal(await store.deleteAccount('acme', 'deleted-1'), 'deleted')
      assert.equal(await store.deleteAccount('acme', 'deleted-2'), 'unknown')
      assert.equal(await store.findKey('hash of acme'), null)
      assert.equal(await store.secrets('acme'), null)
      assert.deepEqual(await countedJobs(store), ['deleted-1 1', 'other 1'])
      assert.ok(await store.findKey('hash of other'))
      // A new account of the same name is a different account, so the idempotency key is free again.
      await addAccounts(store, 'acme')
      await accept(store, [newJob()], { idempotency: { ...idempotency, fingerprint: 'g' } })
    },
  )

  on('the usage of a job that is settled just before its account is deleted moves, too', async (store) => {
    const job = await addHeld(store)
    const [, deleted] = await Promise.all([settle(store, job), store.deleteAccount('acme', 'deleted-1')])
    if (deleted === 'has open jobs') assert.equal(await store.deleteAccount('acme', 'deleted-1'), 'deleted')
    assert.deepEqual(await countedJobs(store), ['deleted-1 1'])
  })

  on('a callback that is owed when its account is deleted is not taken', async (store) => {
    const { id } = await ended(store)
    assert.equal(await store.deleteAccount('acme', 'deleted-1'), 'deleted')
    assert.deepEqual(await take(store), [])
    assert.equal((await store.callbackDepth()).owed, 0)
    assert.deepEqual(await store.findMissing([id]), [])
  })

  on('does not delete an account with open jobs', async (store) => {
    await addQueued(store)
    const held = await addHeld(store, { account: 'other' })
    for (const account of ['acme', 'other']) {
      assert.equal(await store.deleteAccount(account, 'deleted-1'), 'has open jobs')
      assert.notEqual(await store.secrets(account), null)
    }
    await settle(store, held)
    assert.equal(await store.deleteAccount('other', 'deleted-1'), 'deleted')
    assert.equal(await store.deleteAccount('acme', 'deleted-1'), 'has open jobs')
  })

  on('scrubs while it keeps serving', async (store) => {
    const job = await ended(store)
    await store.deleteJob(job.id)
    await Promise.all([store.scrub(), addQueued(store)])
    assert.equal((await store.depth()).waiting, 1)
  })
}

async function expireAll(store: Store, atMs: number, retentionMs: number): Promise<void> {
  for (let step = 0; step < 1000; step++) if (!(await store.expire({ nowMs: atMs, retentionMs }))) return
  assert.fail('expiry does not come to an end')
}

export function expireTests(on: On): void {
  on('an ended job is readable for its retention, judged at the read', async (store) => {
    const job = await addEnded(store, {}, { nowMs: now.ms + 5000 })
    const end = now.ms + 5000 + 1000 * 1000
    assert.ok(await store.read('acme', job.id, expiry(end - 1, 1_000_000)))
    assert.equal(await store.read('acme', job.id, expiry(end, 1_000_000)), null)
  })

  on('a job is readable as long as its response is cached, and while its callback is owed', async (store) => {
    const short = await addEnded(store, { cacheTtlMs: 3_600_000 })
    const owing = await addEnded(store, { callback: CALLBACK })
    const later = now.ms + 3_599_000
    assert.ok(await store.read('acme', short.id, expiry(later, 1000)))
    assert.equal(await store.read('acme', short.id, expiry(later + 1000, 1000)), null)
    await expireAll(store, now.ms + 30 * DAY_MS, 1000)
    assert.ok(await store.read('acme', owing.id, expiry(now.ms + 30 * DAY_MS, 1000)))
  })

  on('reports more to do as long as keys of requests have expired', async (store) => {
    const untilMs = now.ms + 1000
    const keyed = (key: number) => ({ key: `key ${key}`, fingerprint: 'f', untilMs })
    await Promise.all(
      several(1000).map((job, at) =>
        store.accept(acceptance([job], { idempotency: keyed(at), handedOff: true })),
      ),
    )
    const expireOnce = () => store.expire(expiry(untilMs))
    assert.deepEqual([await expireOnce(), await expireOnce()], [true, true])
    await expireAll(store, untilMs, DAY_MS)
  })

  on('deletes what has expired, and nothing else, in bounded steps', async (store) => {
    const old = several(1000)
    for (let from = 0; from < old.length; from += 100) {
      await accept(store, old.slice(from, from + 100), { handedOff: true })
    }
    const queued = await addQueued(store)
    await Promise.all(old.map((job) => settle(store, job)))
    now.ms += 2 * DAY_MS
    const young = await addEnded(store)
    assert.equal(await store.expire(expiry()), true, 'one step is not enough for a thousand jobs')
    await expireAll(store, now.ms, DAY_MS)
    const read = (id = '') => store.read('acme', id, expiry(now.ms, 1000 * DAY_MS))
    for (const at of [0, 500, 999]) assert.equal(await read(old[at]?.id), null)
    assert.equal((await read(queued.id))?.status, 'pending')
    assert.equal((await read(young.id))?.status, 'completed')
  })
}
