/** What every store promises of owed callbacks. */
import assert from 'node:assert/strict'
import type { Callback, Outcome } from '../../job/job.ts'
import type { Store } from '../store.ts'
import { acceptance, newJob, now, type On, settlement } from './fixtures.ts'

const CALLBACK: Callback = {
  url: 'https://example.com/hook',
  headers: { 'x-caller': 'yes' },
  payloadJson: '{"big":12345678901234567890}',
}

/** A settled job whose callback is owed. */
async function owed(store: Store, over: { outcome?: Outcome } = {}): Promise<string> {
  const job = newJob({ callback: CALLBACK })
  await store.accept(acceptance([job], { handedOff: true }))
  await store.settle(settlement({ jobId: job.id, attempt: 1 }, over))
  return job.id
}

async function withAccount(store: Store): Promise<void> {
  await store.createKey({
    id: 'key_1',
    hash: 'h1',
    account: 'acme',
    tier: 'user_max',
    secret: 'whsec_1',
    createdAtMs: now.ms,
    expiresAtMs: null,
  })
}

export function callbackTests(on: On): void {
  on('settling a job with a callback makes it due, with all that is to be sent', async (store) => {
    await withAccount(store)
    const jobId = await owed(store)
    assert.deepEqual(await store.takeCallbacks(10, now.ms, now.ms + 1000), [
      {
        attempt: 1,
        callback: CALLBACK,
        view: {
          id: jobId,
          status: 'completed',
          createdAtMs: now.ms,
          contentJson: '"Hello back"',
          errorJson: null,
        },
        secrets: { current: 'whsec_1', previous: null },
      },
    ])
  })

  on('a failed job owes its callback too, and a job without one owes nothing', async (store) => {
    await withAccount(store)
    const plain = newJob()
    await store.accept(acceptance([plain], { handedOff: true }))
    await store.settle(settlement({ jobId: plain.id, attempt: 1 }))
    const outcome: Outcome = { status: 'failed', error: { code: 'model_error', message: 'No.' } }
    const jobId = await owed(store, { outcome })
    const due = await store.takeCallbacks(10, now.ms, now.ms + 1000)
    assert.deepEqual(
      due.map(({ view }) => [view.id, view.status]),
      [[jobId, 'failed']],
    )
  })

  on('a callback is taken by one only, and due again when its lease ends', async (store) => {
    await withAccount(store)
    await owed(store)
    const leaseUntilMs = now.ms + 1000
    const taken = await Promise.all([1, 2, 3].map(() => store.takeCallbacks(1, now.ms, leaseUntilMs)))
    assert.equal(taken.flat().length, 1)
    const again = await store.takeCallbacks(1, leaseUntilMs, leaseUntilMs + 1000)
    assert.equal(again[0]?.attempt, 2)
  })

  on('what came of an attempt decides when it is due, and a stale attempt decides nothing', async (store) => {
    await withAccount(store)
    const jobId = await owed(store)
    await store.takeCallbacks(1, now.ms, now.ms + 1000)
    const later = now.ms + 5000
    assert.equal(await store.recordCallback(jobId, 1, { kind: 'due', atMs: later }, now.ms), true)
    assert.deepEqual(await store.takeCallbacks(1, later - 1, later), [])
    assert.equal((await store.takeCallbacks(1, later, later + 1000)).length, 1)
    assert.equal(await store.recordCallback(jobId, 1, { kind: 'delivered' }, later), false)
    assert.equal(await store.recordCallback(jobId, 2, { kind: 'delivered' }, later), true)
    assert.equal(await store.recordCallback(jobId, 2, { kind: 'given up' }, later), false)
    assert.deepEqual(await store.takeCallbacks(1, later + 1e9, later + 1e9), [])
  })

  on('the secrets are those in force when it is taken', async (store) => {
    await withAccount(store)
    await owed(store)
    await store.rotateSecret('acme', 'whsec_2', now.ms)
    const [due] = await store.takeCallbacks(1, now.ms, now.ms + 1000)
    const previous = { secret: 'whsec_1', rotatedAtMs: now.ms }
    assert.deepEqual(due?.secrets, { current: 'whsec_2', previous })
  })
}
