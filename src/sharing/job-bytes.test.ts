/** The estimates, compared with the memory that V8 reports for what they estimate. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import {
  answerBytes,
  callbackBytes,
  jobBytes,
  jobTextLength,
  jobTextWithin,
  requestBytes,
  uploadBytes,
  waitingRequestBytes,
} from './job-bytes.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const TEXT_BYTES = 8_000_000
const WIDE = `${'x'.repeat(TEXT_BYTES)}€`
const BODY = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: WIDE }] }))
const RESULT = Buffer.from(JSON.stringify(WIDE))

/** The memory that is kept by what `make` returns, as a multiple of the text. */
function factorOf(make: () => unknown): number {
  const usedBytes = () => {
    collectGarbage()
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  const before = usedBytes()
  const made = make()
  const after = usedBytes()
  assert.ok(made)
  return (after - before) / TEXT_BYTES
}

function parsed() {
  const bytes = Buffer.from(BODY)
  const text = bytes.toString('utf8')
  return { bytes, text, value: JSON.parse(text) }
}

function call() {
  const messagesJson = JSON.stringify(parsed().value.messages)
  const body = `{"model":"gpt-5","messages":${messagesJson}}`
  return { messagesJson, body, buffer: Buffer.from(body) }
}

function response() {
  const resultJson = RESULT.toString('utf8')
  const text = `{"success":true,"data":{"result":${resultJson}}}`
  // As sending does, it copies the parts of the text into one.
  Buffer.byteLength(text)
  return { resultJson, text }
}

const kinds: readonly [name: string, make: () => unknown, estimate: (textBytes: number) => number][] = [
  ['a body being received', () => Buffer.from(BODY), uploadBytes],
  ['a received request', parsed, requestBytes],
  ['a waiting request', () => parsed().value, waitingRequestBytes],
  ['a running job', call, jobBytes],
  ['a callback being sent', () => ({ ...response(), buffer: Buffer.from(RESULT) }), callbackBytes],
  ['an answer being written', response, answerBytes],
]

for (const [name, make, estimate] of kinds) {
  test(`the estimate of ${name} is at least what it takes, and at most twice as much`, () => {
    const measured = factorOf(make)
    const estimated = estimate(TEXT_BYTES) / TEXT_BYTES
    assert.ok(measured <= estimated * 1.02, `takes ${measured}, estimated ${estimated}`)
    assert.ok(measured >= estimated / 2, `takes ${measured}, estimated ${estimated}`)
  })
}

test('the text that fits into bytes is the one whose estimate fits', () => {
  for (const bytes of [100_000, 1_000_001, 64 * 1024 * 1024]) {
    const text = jobTextWithin(bytes)
    assert.ok(jobBytes(text) <= bytes && jobBytes(text + 1) > bytes)
  }
  assert.equal(jobTextWithin(10), 0)
})

test('the text of a job is its messages, its response format and its callback', () => {
  const job = { messagesJson: '[{}]', responseFormatJson: '{"a":1}', callbackJson: '{"url":1}' }
  assert.equal(jobTextLength(job), 20)
  assert.equal(jobTextLength({ ...job, callbackJson: null }), 11)
})
