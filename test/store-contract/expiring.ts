/** What every store guarantees about expiry. */
import assert from 'node:assert/strict'
import type { Store } from '../../src/store/store.ts'
import { acceptance, DAY_MS, expiry, newJob, now, type On, settlement } from './fixtures.ts'

/** Repeats steps until one finds no work, and fails if that takes too many. */
async function expireAll(store: Store, atMs: number, retentionMs: number): Promise<void> {
  for (let step = 0; step < 1000; step++) if (!(await store.expire({ nowMs: atMs, retentionMs }))) return
  assert.fail('expiry does not come to an end')
}

export function expireTests(on: On): void {
  on('an ended job is readable for its retention, judged at the read', async (store) => {
    const job = newJob()
    await store.accept(acceptance([job], { handedOff: true }))
    await store.settle(settlement({ jobId: job.id, attempt: 1 }, { nowMs: now.ms + 5000 }))
    const end = now.ms + 5000 + 1000 * 1000
    assert.ok(await store.read('acme', job.id, expiry(end - 1, 1_000_000)))
    assert.equal(await store.read('acme', job.id, expiry(end, 1_000_000)), null)
  })

  on('a job is readable as long as its response is cached, and while its callback is owed', async (store) => {
    const callback = { url: 'https://example.com/', headers: {}, payloadJson: '{}' }
    const [short, owing] = [newJob({ cacheTtlMs: 3_600_000 }), newJob({ callback })]
    await store.accept(acceptance([short, owing], { handedOff: true }))
    for (const { id } of [short, owing]) await store.settle(settlement({ jobId: id, attempt: 1 }))
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
      Array.from({ length: 1000 }, (_, at) =>
        store.accept(acceptance([newJob()], { idempotency: keyed(at), handedOff: true })),
      ),
    )
    const expireOnce = () => store.expire(expiry(untilMs))
    assert.deepEqual([await expireOnce(), await expireOnce()], [true, true])
    await expireAll(store, untilMs, DAY_MS)
  })

  on('deletes what has expired, and nothing else, in bounded steps', async (store) => {
    const old = Array.from({ length: 1000 }, () => newJob())
    const waiting = newJob()
    for (let from = 0; from < old.length; from += 100) {
      await store.accept(acceptance(old.slice(from, from + 100), { handedOff: true }))
    }
    await store.accept(acceptance([waiting]))
    await Promise.all(old.map(({ id }) => store.settle(settlement({ jobId: id, attempt: 1 }))))
    now.ms += 2 * DAY_MS
    const young = newJob()
    await store.accept(acceptance([young], { handedOff: true }))
    await store.settle(settlement({ jobId: young.id, attempt: 1 }))

    assert.equal(await store.expire(expiry()), true, 'one step is not enough for a thousand jobs')
    await expireAll(store, now.ms, DAY_MS)
    const forEver = expiry(now.ms, 1000 * DAY_MS)
    for (const { id } of [old[0], old[500], old[999]].filter((job) => job !== undefined)) {
      assert.equal(await store.read('acme', id, forEver), null)
    }
    assert.equal((await store.read('acme', waiting.id, forEver))?.status, 'pending')
    assert.equal((await store.read('acme', young.id, forEver))?.status, 'completed')
  })
}
