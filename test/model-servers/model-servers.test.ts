/**
 * The test servers behave like the real ones. The tables of the chat templates were recorded with llama.cpp's
 * `llama-server`, built from its sources of July 2025 (commit 36c153248) and of August 2026, with the templates of its
 * repository.
 */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { FakeClock } from '../fake-clock.ts'
import { type Received, reply, type Script, startModelServer } from '../model-server.ts'
import type { ChatTemplate } from './chat-templates.ts'
import { lmStudio, Ollama } from './desktop-servers.ts'
import { azure, google, KEY, mistral, openRouter } from './hosted-servers.ts'
import { LlamaCpp, type LlamaCppOptions } from './llama-cpp.ts'
import { Slots } from './slots.ts'
import { Vllm } from './vllm.ts'

const ORDERS = {
  'developer first': ['developer', 'user'],
  'system then developer': ['system', 'developer', 'user'],
  'all four roles': ['system', 'developer', 'user', 'assistant', 'user'],
  'system in the middle': ['user', 'assistant', 'system', 'user'],
  'assistant first': ['assistant', 'user'],
  'system last': ['user', 'system'],
  'two users': ['user', 'user'],
  'system only': ['system'],
}

/**
 * What was observed in 2025, and where it differs in 2026: `ok`, or the roles whose text does not reach the prompt, or the
 * status.
 */
const SEEN: { readonly [template in ChatTemplate]: { readonly [order in keyof typeof ORDERS]: string } } = {
  'qwen-2.5': {
    'developer first': 'without developer; ok',
    'system then developer': 'without developer; ok',
    'all four roles': 'without developer; ok',
    'system in the middle': 'ok',
    'assistant first': 'ok',
    'system last': 'ok',
    'two users': 'ok',
    'system only': 'ok',
  },
  'phi-3.5': {
    'developer first': 'without developer; ok',
    'system then developer': 'without developer; ok',
    'all four roles': 'without developer; ok',
    'system in the middle': 'ok',
    'assistant first': 'ok',
    'system last': 'ok',
    'two users': 'ok',
    'system only': 'ok',
  },
  'gemma-2': {
    'developer first': '500; ok',
    'system then developer': 'ok; 400',
    'all four roles': 'ok; 400',
    'system in the middle': 'ok; 400',
    'assistant first': '500; 400',
    'system last': '500; ok',
    'two users': '500; 400',
    'system only': 'ok; without system',
  },
  'mistral-nemo': {
    'developer first': '500; ok',
    'system then developer': '500; 400',
    'all four roles': '500; 400',
    'system in the middle': '500; 400',
    'assistant first': '500; 400',
    'system last': '500; 400',
    'two users': '500; 400',
    'system only': 'without system',
  },
}

describe('llama.cpp', () => {
  for (const generation of [2025, 2026] as const) {
    for (const template of Object.keys(SEEN) as ChatTemplate[]) {
      test(`${template} in ${generation}: orders of roles`, async (t) => {
        const llama = new LlamaCpp({ template, generation })
        const post = await serve(t, llama.script)
        for (const [order, roles] of Object.entries(ORDERS)) {
          const messages = roles.map((role, index) => ({ role, content: `${role}-${index}` }))
          const { status } = await post({ messages })
          const missing = messages.filter(({ content }) => !llama.prompts.at(-1)?.includes(content))
          const seen = missing.length === 0 ? 'ok' : `without ${missing[0]?.role}`
          const [old, newer = old] = SEEN[template][order as keyof typeof ORDERS].split('; ')
          assert.equal(status === 200 ? seen : String(status), generation === 2025 ? old : newer, order)
        }
      })
    }
  }

  test('a prompt over the context is cut from its beginning, or since 2026 rejected', async (t) => {
    const content = `${'early '.repeat(1_000)}late`
    const options: LlamaCppOptions = { template: 'phi-3.5', contextTokens: 512 }
    const llama = new LlamaCpp(options)
    const { body } = await (await serve(t, llama.script))({ messages: [{ role: 'user', content }] })
    assert.ok(body.usage.prompt_tokens < 512)
    const [prompt = ''] = llama.prompts
    assert.ok(prompt.includes('early late') && !prompt.includes('<|user|>'))
    const newer = await serve(t, new LlamaCpp({ ...options, generation: 2026 }).script)
    const rejected = await newer({ messages: [{ role: 'user', content }] })
    assert.equal(rejected.status, 400)
    assert.equal(rejected.body.error.type, 'exceed_context_size_error')
  })

  test('503 while it loads, 500 for a schema that it cannot enforce, 401 for a wrong key but not for the models', async (t) => {
    const llama = new LlamaCpp({ template: 'qwen-2.5', apiKey: 'right' })
    const server = await startModelServer({ script: llama.script }, t)
    const post = poster(server.baseUrl)
    llama.loading = true
    assert.equal((await fetch(`${server.baseUrl}/models`)).status, 503)
    llama.loading = false
    assert.equal((await fetch(`${server.baseUrl}/models`)).status, 200)
    assert.equal((await post({ messages: user('Hello') })).status, 401)
    const schema = { type: 'object', properties: { code: { type: 'string', pattern: '[a-z]+' } } }
    const response_format = { type: 'json_schema', json_schema: { name: 'answer', schema } }
    const rejected = await post(
      { messages: user('Hello'), response_format },
      { authorization: 'Bearer right' },
    )
    assert.equal(rejected.status, 500)
    assert.match(rejected.body.error.message, /Pattern must start with '\^' and end with '\$'/)
  })
})

test('slots: one answer at a time, in their order; who hangs up leaves the queue', async (t) => {
  const clock = new FakeClock()
  const slots = new Slots({ answerMs: 1_000, clock })
  const server = await startModelServer({ script: () => slots.hold(reply.echo()) }, t)
  const [hangUp, post] = [new AbortController(), poster(server.baseUrl)]
  const first = post({ messages: user('first') })
  await server.received(1)
  const second = post({ messages: user('second') }, {}, hangUp.signal)
  await server.received(2)
  const third = post({ messages: user('third') })
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

test('each server words its errors in its own shape', async (t) => {
  const wrong = { authorization: 'Bearer wrong' }
  const right = { authorization: `Bearer ${KEY}` }
  const hello = { messages: user('Hello'), model: 'tiny' }
  const cases: [name: string, Script, object, Record<string, string>, number, unknown][] = [
    [
      'vLLM, template',
      new Vllm({ template: 'gemma-2' }).script,
      { ...hello, messages: roles('system', 'user') },
      {},
      400,
      {
        error: {
          message: 'System role not supported System role not supported',
          type: 'BadRequestError',
          param: null,
          code: 400,
        },
      },
    ],
    [
      'vLLM, key',
      new Vllm({ template: 'phi-3.5', apiKey: 'right' }).script,
      hello,
      wrong,
      401,
      { error: 'Unauthorized' },
    ],
    [
      'Ollama, model',
      new Ollama().script,
      hello,
      {},
      404,
      { error: { message: "model 'tiny' not found", type: 'not_found_error', param: null, code: null } },
    ],
    [
      'LM Studio, JSON',
      lmStudio(),
      { ...hello, response_format: { type: 'json_object' } },
      {},
      400,
      { error: "'response_format.type' must be 'json_schema' or 'text'" },
    ],
    ['Mistral, key', mistral(), hello, wrong, 401, { detail: 'Unauthorized' }],
    [
      'Mistral, roles',
      mistral(),
      { messages: roles('user', 'system') },
      right,
      400,
      {
        object: 'error',
        message: 'Expected last role User or Tool (or Assistant with prefix True) for serving but got system',
        type: 'invalid_request_message_order',
        param: null,
        code: '3230',
      },
    ],
    [
      'Azure, no api-version',
      azure(),
      hello,
      { 'api-key': KEY },
      404,
      { error: { code: '404', message: 'Resource not found' } },
    ],
    [
      'OpenRouter, key',
      openRouter(),
      hello,
      wrong,
      401,
      { error: { message: 'User not found.', code: 401 } },
    ],
    [
      'OpenRouter, provider',
      openRouter({ trouble: 'provider' }),
      hello,
      right,
      200,
      {
        error: {
          message: 'Provider returned error',
          code: 502,
          metadata: { raw: 'upstream connect error', provider_name: 'Together' },
        },
      },
    ],
  ]
  for (const [name, script, body, headers, status, expected] of cases) {
    const answer = await (await serve(t, script))(body, headers)
    assert.equal(answer.status, status, name)
    assert.deepEqual(answer.body, expected, name)
  }
  const [error] = (await (await serve(t, google()))(hello, wrong)).body
  assert.equal(error.error.status, 'INVALID_ARGUMENT')
})

function user(content: string) {
  return [{ role: 'user', content }]
}

function roles(...names: string[]) {
  return names.map((role) => ({ role, content: 'Hello' }))
}

/** Posts completions to a separate server. */
async function serve(t: TestContext, script: (request: Received, index: number) => ReturnType<Script>) {
  const server = await startModelServer({ script }, t)
  return poster(server.baseUrl)
}

function poster(baseUrl: string) {
  return async (body: object, headers: Record<string, string> = {}, signal: AbortSignal | null = null) => {
    const init = { method: 'POST', headers, signal, body: JSON.stringify({ model: 'tiny', ...body }) }
    const response = await fetch(`${baseUrl}/chat/completions`, init)
    // biome-ignore lint/suspicious/noExplicitAny: tests inspect answers of every shape, and fail if one is wrong.
    return { status: response.status, body: (await response.json()) as any }
  }
}
