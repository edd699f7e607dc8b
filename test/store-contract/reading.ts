/**
 * Tests what every store guarantees about read and findResponse, and that reads return texts unchanged, whatever they contain
 * and however the store keeps them.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { Outcome } from '../../src/job/job.ts'
import { expiry, newJob, now, OF_ROUTE, type On } from './fixtures.ts'
import { requestBytes } from './quotas.ts'
import { addEnded, addHeld, addQueued, settle } from './steps.ts'

export function readTests(on: On): void {
  on('shows a job to its account only', async (store) => {
    const job = await addQueued(store)
    assert.equal(await store.read('other', job.id, expiry()), null)
    for (const id of [newJob().id, 'no id at all']) assert.equal(await store.read('acme', id, expiry()), null)
  })

  on('loads a result only up to the requested size, and returns the size of a larger one', async (store) => {
    const contentJson = JSON.stringify('€'.repeat(100_000))
    const error = { code: 'model_error', message: 'x'.repeat(1000) } as const
    const done = await addEnded(store, {}, { outcome: { status: 'completed', contentJson } })
    const failed = await addEnded(store, {}, { outcome: { status: 'failed', error } })
    const read = async (jobId: string, maxBytes?: number) => {
      const job = await store.read('acme', jobId, expiry(), maxBytes)
      return [job?.status, job?.contentJson ?? job?.errorJson, job?.omittedBytes]
    }
    assert.deepEqual(await read(done.id, 300_001), ['completed', null, 300_002])
    for (const most of [300_002, undefined])
      assert.deepEqual(await read(done.id, most), ['completed', contentJson, 0])
    const errorJson = JSON.stringify(error)
    assert.deepEqual(await read(failed.id, errorJson.length - 1), ['failed', null, errorJson.length])
    assert.deepEqual(await read(failed.id, errorJson.length), ['failed', errorJson, 0])
    assert.deepEqual(await read((await addQueued(store)).id, 1), ['pending', null, 0])
  })

  on('finds a cached response until it expires, the latest one first', async (store) => {
    const fingerprint = 'f'.repeat(22)
    const keep = (ms: number) => ({ fingerprint, untilMs: now.ms + ms })
    const find = (ms = 0, which = fingerprint) => store.findResponse(which, now.ms + ms)
    await addEnded(store, {}, { cache: keep(300_500) })
    assert.equal(await find(), '"Hello back"')
    assert.equal(await find(0, 'g'.repeat(22)), null)
    assert.equal(await find(300_499), '"Hello back"')
    assert.equal(await find(300_500), null)
    const outcome: Outcome = { status: 'completed', contentJson: '"later"' }
    await addEnded(store, {}, { outcome, cache: keep(400_000) })
    assert.equal(await find(), '"later"')
  })

  on('does not cache the response of a stale settlement', async (store) => {
    const job = await addHeld(store)
    const cache = { fingerprint: 's'.repeat(22), untilMs: now.ms + 300_000 }
    assert.equal(await settle(store, job, { attempt: 7, cache }), 'stale')
    assert.equal(await store.findResponse(cache.fingerprint, now.ms), null)
  })
}

/**
 * Stores compress texts from 2 or 32 KiB, and on Postgres on a thread from 64 Ki characters, so these sizes are around those
 * limits.
 */
const SIZES = [1, 2047, 2048, 8192, 32_767, 32_768, 65_535, 65_536, 300_000]
const TEXTS: Readonly<Record<string, (length: number) => string>> = {
  'that repeat': (length) => 'x'.repeat(length),
  'that do not compress': (length) => randomBytes(length).toString('base64').slice(0, length),
  'of three and four bytes a character': (length) => '€😀'.repeat(length).slice(0, length),
  'with NUL and unpaired surrogates': (length) => '\0\ud800"\\'.repeat(length).slice(0, length),
}

export function textTests(on: On): void {
  for (const [which, textOf] of Object.entries(TEXTS)) {
    on(`returns texts ${which} as they were, and counts their own bytes`, async (store) => {
      let storedBytes = 0
      for (const size of SIZES) {
        const text = textOf(size)
        const job = await addQueued(store, { messages: [{ role: 'user', content: text }] })
        const { id: jobId, account, messagesJson } = job
        const { jobs } = await store.claim('node-a', 1, now.ms, OF_ROUTE)
        const [claimed] = jobs
        assert.equal(claimed?.id, jobId)
        if (claimed !== undefined && 'messagesJson' in claimed)
          assert.equal(claimed.messagesJson, messagesJson, `claimed: ${size}`)
        assert.equal((await store.readTexts(jobId))?.messagesJson, messagesJson, `read: ${size}`)
        const bytes = Buffer.byteLength(messagesJson)
        assert.equal(await store.heldMessages(account, jobId, bytes), messagesJson, `held: ${size}`)
        assert.equal(await store.heldMessages(account, jobId, bytes - 1), null)

        const contentJson = JSON.stringify(text)
        const contentBytes = Buffer.byteLength(contentJson)
        const cache = { fingerprint: String(size).padStart(22, 'f'), untilMs: now.ms + 300_000 }
        const outcome = { status: 'completed', contentJson } as const
        assert.equal(await settle(store, job, { outcome, cache }), 'settled')
        const read = await store.read(account, jobId, expiry())
        assert.equal(read?.contentJson, contentJson, `result: ${size}`)
        const omitted = await store.read(account, jobId, expiry(), contentBytes - 1)
        assert.equal(omitted?.omittedBytes, contentBytes)
        assert.equal(await store.findResponse(cache.fingerprint, now.ms), contentJson, `cached: ${size}`)
        const asked = { account, jobId, expiry: expiry(), messageChars: 40 }
        const request = await store.readRequest(asked)
        const start = [...messagesJson].slice(0, 40).join('')
        assert.deepEqual([request?.messagesStart, request?.messageBytes], [start, bytes])
        storedBytes += requestBytes(job) + contentBytes + Buffer.byteLength('{}')
      }
      assert.deepEqual(await store.quotaUse('acme'), { openJobs: 0, storedBytes })
    })
  }
}
