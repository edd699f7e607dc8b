/** The estimates, compared with the memory that V8 reports for what they estimate. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import {
  answerBytes,
  bytesOfJob,
  callbackBytes,
  jobBytes,
  jobTextWithin,
  requestBytes,
  uploadBytes,
  waitingRequestBytes,
} from './job-bytes.ts'

const MEASURE = fileURLToPath(new URL('../../test/support/job-byte-factors.ts', import.meta.url))
const TEXT_BYTES = 8_000_000

const kinds: readonly [name: string, estimate: (textBytes: number) => number][] = [
  ['a body being received', uploadBytes],
  ['a received request', requestBytes],
  ['a waiting request', waitingRequestBytes],
  ['a running job', jobBytes],
  ['a callback being sent', callbackBytes],
  ['an answer being written', answerBytes],
]

test('each estimate is at least what the thing takes, and at most twice as much', () => {
  const factors = JSON.parse(execFileSync(process.execPath, ['--expose-gc', MEASURE], { encoding: 'utf8' }))
  for (const [name, estimate] of kinds) {
    const measured = factors[name]
    const estimated = estimate(TEXT_BYTES) / TEXT_BYTES
    const found = `${name} takes ${measured}, estimated ${estimated}`
    assert.ok(measured <= estimated * 1.02, found)
    assert.ok(measured >= estimated / 2, found)
  }
})

test('the text that fits into bytes is the one whose estimate fits', () => {
  for (const bytes of [100_000, 1_000_001, 64 * 1024 * 1024]) {
    const text = jobTextWithin(bytes)
    assert.ok(jobBytes(text) <= bytes && jobBytes(text + 1) > bytes)
  }
  assert.equal(jobTextWithin(10), 0)
})

test('the text of a job is its messages, its response format and its callback', () => {
  const job = { messagesJson: '[{}]', responseFormatJson: '{"a":1}', callbackJson: '{"url":1}' }
  assert.equal(bytesOfJob(job), jobBytes(20))
  assert.equal(bytesOfJob({ ...job, callbackJson: null }), jobBytes(11))
})
