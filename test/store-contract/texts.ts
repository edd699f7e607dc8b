/** What every store guarantees about texts, whatever they contain and however it stores them: reads return them unchanged. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { acceptance, expiry, newJob, now, OF_ROUTE, type On, settlement } from './fixtures.ts'
import { requestBytes } from './quotas.ts'

/** Sizes around the limits from which stores compress texts: 2 or 32 KiB, and on Postgres on a thread from 64 Ki characters. */
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
        const job = newJob({ messages: [{ role: 'user', content: text }] })
        const [fingerprint, account] = [String(size).padStart(22, 'f'), 'acme']
        await store.accept(acceptance([job]))
        const { jobs } = await store.claim('node-a', 1, now.ms, OF_ROUTE)
        const [claimed] = jobs
        assert.equal(claimed?.id, job.id)
        if (claimed !== undefined && 'messagesJson' in claimed)
          assert.equal(claimed.messagesJson, job.messagesJson, `claimed: ${size}`)
        assert.equal((await store.readTexts(job.id))?.messagesJson, job.messagesJson, `read: ${size}`)
        const bytes = Buffer.byteLength(job.messagesJson)
        assert.equal(await store.heldMessages(account, job.id, bytes), job.messagesJson, `held: ${size}`)
        assert.equal(await store.heldMessages(account, job.id, bytes - 1), null)

        const contentJson = JSON.stringify(text)
        const cache = { fingerprint, untilMs: now.ms + 300_000 }
        const outcome = { status: 'completed', contentJson } as const
        assert.equal(
          await store.settle(
            settlement({ jobId: job.id, attempt: 1 }, { outcome, cache, receiptJson: '{}' }),
          ),
          'settled',
        )
        const read = await store.read(account, job.id, expiry())
        assert.equal(read?.contentJson, contentJson, `result: ${size}`)
        const contentBytes = Buffer.byteLength(contentJson)
        assert.equal(
          (await store.read(account, job.id, expiry(), contentBytes - 1))?.omittedBytes,
          contentBytes,
        )
        assert.equal(await store.findResponse(fingerprint, now.ms), contentJson, `cached: ${size}`)
        const asked = { account, jobId: job.id, expiry: expiry(), messageChars: 40 }
        const request = await store.readRequest(asked)
        assert.deepEqual(
          [request?.messagesStart, request?.messageBytes],
          [[...job.messagesJson].slice(0, 40).join(''), bytes],
        )
        storedBytes += requestBytes(job) + contentBytes + Buffer.byteLength('{}')
      }
      assert.deepEqual(await store.quotaUse('acme'), { openJobs: 0, storedBytes })
    })
  }
}
