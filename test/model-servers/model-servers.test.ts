/**
 * Tests that the test servers behave like the real ones. The tables of the chat templates were recorded with llama.cpp's
 * `llama-server`, built from its sources of July 2025 (commit 36c153248) and of August 2026, with the templates of its
 * repository. The tests of the check of model servers (src/cli/check/) cover the errors of the other servers.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../fake-clock.ts'
import { reply, startModelServer } from '../model-server.ts'
import type { ChatTemplate } from './chat-templates.ts'
import { LlamaCpp } from './llama-cpp.ts'
import { Slots } from './slots.ts'

const ROLE_OF = { s: 'system', d: 'developer', u: 'user', a: 'assistant' } as const

/** Each letter is the first letter of a role. */
const ORDERS = ['du', 'sdu', 'sduau', 'uasu', 'au', 'us', 'uu', 's']

const [ok, lost] = ['ok', 'without developer; ok']

/**
 * Lists what each order gave in 2025, and where 2026 differs: `ok`, the roles whose text does not reach the prompt, or the
 * status.
 */
const SEEN: { readonly [template in ChatTemplate]: readonly string[] } = {
  'qwen-2.5': [lost, lost, lost, ok, ok, ok, ok, ok],
  'phi-3.5': [lost, lost, lost, ok, ok, ok, ok, ok],
  'gemma-2': [
    ...['500; ok', 'ok; 400', 'ok; 400', 'ok; 400'],
    ...['500; 400', '500; ok', '500; 400', 'ok; without system'],
  ],
  'mistral-nemo': ['500; ok', ...Array(6).fill('500; 400'), 'without system'],
}

for (const generation of [2025, 2026] as const) {
  for (const template of Object.keys(SEEN) as ChatTemplate[]) {
    test(`llama.cpp: ${template} in ${generation}: orders of roles`, async (t) => {
      const llama = new LlamaCpp({ template, generation })
      const { baseUrl } = await startModelServer({ script: llama.script }, t)
      const seen: string[] = []
      for (const order of ORDERS) {
        const messages = order.split('').map((letter, index) => {
          const role = ROLE_OF[letter as keyof typeof ROLE_OF]
          return { role, content: `${role}-${index}` }
        })
        const { status } = await post(baseUrl, messages)
        const missing = messages.find(({ content }) => !llama.prompts.at(-1)?.includes(content))
        seen.push(status !== 200 ? `${status}` : missing ? `without ${missing.role}` : 'ok')
      }
      const expected = SEEN[template].map((both) => {
        const [old, newer = old] = both.split('; ')
        return generation === 2025 ? old : newer
      })
      assert.deepEqual(seen, expected)
    })
  }
}

test('llama.cpp: a prompt over the context is cut from its beginning', async (t) => {
  const llama = new LlamaCpp({ template: 'phi-3.5', contextTokens: 512 })
  const { baseUrl } = await startModelServer({ script: llama.script }, t)
  const { body } = await post(baseUrl, user(`${'early '.repeat(1_000)}late`))
  assert.ok(body.usage.prompt_tokens < 512)
  const [prompt = ''] = llama.prompts
  assert.ok(prompt.includes('early late') && !prompt.includes('<|user|>'))
})

test('slots: one answer at a time, in their order; who hangs up leaves the queue', async (t) => {
  const clock = new FakeClock()
  const slots = new Slots({ answerMs: 1_000, clock })
  const server = await startModelServer({ script: () => slots.hold(reply.echo()) }, t)
  const hangUp = new AbortController()
  const first = post(server.baseUrl, user('first'))
  await server.received(1)
  const second = post(server.baseUrl, user('second'), hangUp.signal)
  await server.received(2)
  const third = post(server.baseUrl, user('third'))
  await server.received(3)
  assert.equal(slots.queued, 2)
  hangUp.abort()
  await Promise.all([assert.rejects(second), server.requests[1]?.ended])
  clock.advance(1_000)
  assert.equal((await first).body.choices[0].message.content, 'echo: first')
  await server.requests[0]?.ended
  assert.equal(slots.queued, 0)
  clock.advance(1_000)
  assert.equal((await third).body.choices[0].message.content, 'echo: third')
})

const user = (content: string) => [{ role: 'user', content }]

async function post(baseUrl: string, messages: readonly object[], signal: AbortSignal | null = null) {
  const init = { method: 'POST', signal, body: JSON.stringify({ model: 'tiny', messages }) }
  const response = await fetch(`${baseUrl}/chat/completions`, init)
  // biome-ignore lint/suspicious/noExplicitAny: tests inspect answers of every shape, and fail if one is wrong.
  return { status: response.status, body: (await response.json()) as any }
}
