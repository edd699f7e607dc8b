/**
 * Measures the memory of what `byte-budget.ts` estimates, and prints it as JSON: names with multiples of the text's size. The
 * measurement includes everything in its process, so it must run in a separate one.
 *
 *     node --expose-gc test/support/job-byte-factors.ts
 */
import assert from 'node:assert/strict'

const TEXT_BYTES = 8_000_000
const WIDE = `${'x'.repeat(TEXT_BYTES)}€`
const BODY = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: WIDE }] }))
const RESULT = Buffer.from(JSON.stringify(WIDE))

function usedBytes(): number {
  assert.ok(globalThis.gc, 'run with --expose-gc')
  globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

function factorOf(make: () => unknown): number {
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
  // This joins the parts of the text in memory, as sending does.
  Buffer.byteLength(text)
  return { resultJson, text }
}

const kinds = {
  'a body being received': () => Buffer.from(BODY),
  'a received request': parsed,
  'a waiting request': () => parsed().value,
  'a running job': call,
  'a callback being sent': () => ({ ...response(), buffer: Buffer.from(RESULT) }),
  'an answer being written': response,
}

const factors = Object.entries(kinds).map(([name, make]) => [name, factorOf(make)])
process.stdout.write(JSON.stringify(Object.fromEntries(factors)))
