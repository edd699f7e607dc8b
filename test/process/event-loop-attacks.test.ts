/**
 * Tests that no request and no answer blocks the event loop for long, whatever it contains. Version 0.2.0 fails each of these
 * tests.
 */
import assert from 'node:assert/strict'
import test, { after, type TestContext } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import {
  BATCHES,
  batchOf,
  filled,
  job,
  LARGEST,
  MESSAGES,
  MIB,
  names,
  slowness,
  startWatched,
  withPayload,
} from './watched-server.ts'

/** The limit is in milliseconds of CPU time, on a machine like the one on which it was set. */
const LONGEST_HOLD_MS = 100

const PROPERTIES = Object.fromEntries(
  Array.from({ length: 8_000 }, (_, index) => [`k${index}`, { type: 'string' }]),
)

const BODIES: [string, () => string, { status: number; details?: RegExp }][] = [
  [
    'a payload of numbers',
    () => withPayload(`{"a":[${filled('1,', 5 * MIB)}1]}`),
    {
      status: 400,
      details: /callback_payload: must be at most 65536 bytes long \(limits\.callback_payload_bytes\)/,
    },
  ],
  [
    'a payload of different names',
    () => withPayload(names(LARGEST)),
    { status: 400, details: /callback_payload/ },
  ],
  [
    'payloads of the largest size allowed',
    () =>
      batchOf(30, () => ({
        callback: {
          callback_url: 'https://receiver.invalid/',
          callback_payload: { a: Array(32_000).fill(1) },
        },
      })),
    { status: 202 },
  ],
  [
    'a schema that is too large',
    () =>
      batchOf(1, () => ({
        response_format: { format: 'json', schema: { type: 'object', description: 'x'.repeat(9 * MIB) } },
      })),
    { status: 400, details: /schema: must be at most 262144 bytes long \(limits\.schema_bytes\)/ },
  ],
  [
    'schemas of about the largest size allowed',
    () =>
      batchOf(30, (index) => ({
        response_format: {
          format: 'json',
          schema: { type: 'object', title: `${index}`, properties: PROPERTIES },
        },
      })),
    { status: 202 },
  ],
  [
    'very many messages',
    () => batchOf(30, () => ({ messages: Array(10_900).fill({ role: 'user', content: '' }) })),
    { status: 202 },
  ],
  [
    'different names that no job has',
    () => `[${names(LARGEST)}]`,
    { status: 400, details: /model: is required/ },
  ],
  ['brackets', () => '['.repeat(LARGEST), { status: 400, details: /nested more than 64 levels deep/ }],
  [
    'empty arrays',
    () => `[[${filled('[],', 4 * MIB)}[]]]`,
    { status: 400, details: /jobs\[0\]: must be an object/ },
  ],
  [
    'more empty arrays than the heap of a thread has room for',
    () => `[[${filled('[],', LARGEST)}[]]]`,
    { status: 413, details: /cpu\.thread_heap_mb/ },
  ],
]

let content = 'ok'
const models = await startModelServer({ keep: false, script: () => reply.text(content) })
after(() => models.close())
const { server, post, held, key } = await startWatched({ after }, { upstream: models.baseUrl })
const caller = await key('acme', 'user_max')
await post(
  BATCHES,
  batchOf(1, () => ({})),
  caller,
)

async function holdsNothing(t: TestContext, name: string, work: () => Promise<unknown>): Promise<void> {
  const limitMs = LONGEST_HOLD_MS * slowness()
  await t.test(name, async (t) => {
    const heldMs = await held(work)
    t.diagnostic(`${name}: ${heldMs.toFixed(0)} ms of CPU time at most`)
    assert.ok(heldMs < limitMs, `${heldMs} ms, limit ${limitMs} ms`)
  })
}

// Only the first request for a file prepares it, so this test comes first.
test('no file that a server prepares when it is first requested holds the event loop', async (t) => {
  for (const path of ['/docs/', '/openapi.json', '/admin/api/openapi.json', '/dashboard']) {
    await holdsNothing(t, path, async () => {
      const answer = await fetch(server.url + path)
      await answer.arrayBuffer()
      assert.equal(answer.status, 200)
    })
  }
})

test('no body of 10 MB holds the event loop', async (t) => {
  for (const [name, make, { status, details }] of BODIES) {
    const body = make()
    await holdsNothing(t, name, async () => {
      const answer = await post(BATCHES, body, caller)
      assert.equal(answer.status, status, JSON.stringify(answer.body).slice(0, 300))
      if (details) assert.match(answer.body.details, details)
    })
  }
})

const CHAT_BODIES: [string, () => object, number][] = [
  ['very many messages', () => ({ messages: Array(60_000).fill({ role: 'user', content: '' }) }), 200],
  [
    'very many parts of a message',
    () => ({ messages: [{ role: 'user', content: Array(60_000).fill({ type: 'text', text: '' }) }] }),
    200,
  ],
  [
    'a schema of about the largest size allowed',
    () => ({
      messages: [{ role: 'user', content: 'Hello' }],
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'a', schema: { type: 'object', properties: PROPERTIES } },
      },
    }),
    502,
  ],
  ['an ignored field of numbers', () => ({ messages: [], metadata: Array(900_000).fill(1) }), 400],
]

test('no chat completion of 2 MB holds the event loop', async (t) => {
  const headers = { authorization: `Bearer ${caller}`, 'content-type': 'application/json' }
  const ask = (body: object) =>
    fetch(`${server.url}/v1/chat/completions`, {
      ...{ method: 'POST', headers },
      body: JSON.stringify({ model: 'gpt-5-mini', ...body }),
    })
  await ask({ messages: [{ role: 'user', content: 'Hello' }] })
  for (const [name, make, status] of CHAT_BODIES) {
    const body = make()
    await holdsNothing(t, name, async () => {
      const answer = await ask(body)
      assert.equal(answer.status, status, (await answer.text()).slice(0, 300))
    })
  }
})

const LEVELS = 4_000_000
const TOO_DEEP = /nested more than 64 levels deep/

const ANSWERS: [string, () => string, { code: string; error: RegExp } | null][] = [
  ['8 MB of brackets', () => '['.repeat(8 * MIB), { code: 'validation_error', error: TOO_DEEP }],
  [
    '4,000,000 levels',
    () => '['.repeat(LEVELS) + ']'.repeat(LEVELS),
    { code: 'validation_error', error: TOO_DEEP },
  ],
  [
    'a fence and blank lines',
    () => `\`\`\`${'\n'.repeat(60_000)}x`,
    { code: 'validation_error', error: /not JSON/ },
  ],
  ['quotes that are no JSON', () => '"'.repeat(7 * MIB), { code: 'validation_error', error: /not JSON/ }],
  ['8 MB of objects', () => `[${filled('{"a":{}},', 8 * MIB)}1]`, null],
]

test('no answer holds the event loop', async (t) => {
  for (const [name, make, expected] of ANSWERS) {
    content = make()
    const asked = job({ response_format: { format: 'json' }, messages: [{ role: 'user', content: name }] })
    await holdsNothing(t, name, async () => {
      const { data } = (await post(MESSAGES, JSON.stringify(asked), caller)).body
      assert.equal(data.status, expected ? 'failed' : 'completed')
      if (expected === null) return
      assert.equal(data.error.code, expected.code)
      assert.match(data.error.errors[0], expected.error)
    })
  }
})
