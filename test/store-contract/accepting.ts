/** What every store guarantees about accept. */
import assert from 'node:assert/strict'
import { acceptance, expiry, ids, newJob, now, type On, START_MS, settlement } from './fixtures.ts'

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
      omittedBytes: 0,
    })
  })

  on('stores a handed-off job as assigned to the accepting node, attempt 1', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    assert.equal((await store.read('acme', job.id, expiry()))?.status, 'assigned')
    assert.deepEqual((await store.claim('node-b', 10, now.ms)).jobs, [])
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
    assert.deepEqual(ids((await store.claim('node-a', 10, now.ms)).jobs).sort(), ids([good, other]).sort())
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

  on('accepts a request again if its jobs no longer exist', async (store) => {
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1e9 }
    const [first, again] = [newJob(), newJob()]
    await store.accept(acceptance([first], { idempotency, handedOff: true }))
    await store.settle(settlement({ jobId: first.id, attempt: 1 }))
    while (await store.expire(expiry(now.ms + 1e8, 1000)));
    assert.deepEqual(await store.accept(acceptance([again], { idempotency })), { kind: 'accepted' })
    const repeated = await store.accept(acceptance([newJob()], { idempotency }))
    assert.deepEqual(repeated, { kind: 'repeated', jobIds: [again.id] })
  })

  on('stores nothing of an account that does not exist, and what came with it', async (store) => {
    const [good, other] = [newJob(), newJob()]
    const idempotency = { key: 'k', fingerprint: 'f', untilMs: now.ms + 1000 }
    const unknown = () => newJob({ account: 'nobody' })
    const ended = unknown()
    const results = await Promise.allSettled([
      store.accept(acceptance([good])),
      store.accept(acceptance([unknown(), unknown()])),
      store.accept(acceptance([unknown()], { handedOff: true })),
      store.accept(acceptance([unknown()], { idempotency })),
      store.acceptEnded(ended, settlement({ jobId: ended.id, attempt: 1 })),
      store.accept(acceptance([other], { handedOff: true })),
    ])
    assert.deepEqual(
      results.map((result) => (result.status === 'rejected' ? result.reason.name : 'accepted')),
      ['accepted', ...Array.from({ length: 4 }, () => 'UnknownAccount'), 'accepted'],
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
}
