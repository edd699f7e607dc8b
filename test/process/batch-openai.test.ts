/** Tests `parley batch` with OpenAI's batch files: what it reads from them, and its results in OpenAI's format. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'node:test'
import { type Received, reply, startModelServer } from '../model-server.ts'
import { jobLine, startAsking } from './asking.ts'

const timeout = 60_000

test('OpenAI batch files are read, and results written as theirs', { timeout }, async (t) => {
  const script = ({ body }: Received) => (body.response_format ? reply.text('{"river": "Amur"}') : undefined)
  const models = await startModelServer({ script }, t)
  const { ask, write, place } = await startAsking(t, { upstream: models.baseUrl })
  const schema = {
    type: 'object',
    properties: { river: { type: 'string' } },
    required: ['river'],
    additionalProperties: false,
  }
  const line = (custom_id: string, body: object) =>
    JSON.stringify({
      custom_id,
      method: 'POST',
      url: '/v1/chat/completions',
      body: {
        model: 'gpt-4o-mini',
        messages: [
          { role: 'system', content: 'Hi.' },
          { role: 'user', content: 'A river?', name: 'me' },
        ],
        ...body,
      },
    })
  await write(
    'openai.jsonl',
    [
      line('a', {
        max_completion_tokens: 100,
        temperature: 0,
        seed: null,
        top_k: 5,
        n: 1,
        stream: false,
        user: 'me',
        metadata: { customer: 'acme' },
      }),
      line('b', {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'river', strict: true, schema, description: 'a river' },
        },
      }),
      line('c', { messages: [{ role: 'user', content: '[[x]]' }], response_format: { type: 'text' } }),
    ].join('\n'),
  )
  const refused = await ask(['batch', 'openai.jsonl', '--model', 'gpt-4o-mini=gpt-5-mini'])
  assert.equal(refused.code, 1)
  assert.match(
    refused.stderr,
    /openai\.jsonl:1: body\.top_k: is not supported; pass --drop top_k to ignore it/,
  )
  const ended = await ask([
    'batch',
    'openai.jsonl',
    '--model',
    'gpt-4o-mini=gpt-5-mini',
    '--drop',
    'top_k',
    '--format',
    'openai',
  ])
  assert.equal(ended.code, 0, ended.stderr)
  const first = models.requests.find(({ body }) => body.max_tokens === 100)?.body
  assert.equal(first?.temperature, 0)
  assert.equal(first !== undefined && 'seed' in first, false)
  assert.equal(first !== undefined && 'metadata' in first, false)
  const ofAcme = await ask(['jobs', 'list', '--metadata', 'customer=acme', '--json'])
  assert.equal(JSON.parse(ofAcme.stdout).length, 1)
  const asked = models.requests.find(({ body }) => body.response_format)?.body
  assert.equal(asked?.model, 'gpt-5-mini')
  assert.match(JSON.stringify(asked?.response_format), /"description":"a river"/)
  const rows = (await readFile(join(place.folder, 'openai.jsonl.results.jsonl'), 'utf8'))
    .trim()
    .split('\n')
    .map((text) => JSON.parse(text))
  assert.deepEqual(
    rows.map(({ custom_id, error }) => [custom_id, error]),
    [
      ['a', null],
      ['b', null],
      ['c', null],
    ],
  )
  const { status_code, request_id, body } = rows[1].response
  assert.equal(status_code, 200)
  const { created, ...completion } = body
  assert.ok(Math.abs(created - Date.now() / 1000) < 60)
  assert.deepEqual(completion, {
    id: `chatcmpl-${request_id}`,
    object: 'chat.completion',
    model: 'gpt-5-mini',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: '{"river":"Amur"}', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
  })
  assert.equal(rows[0].response.body.choices[0].message.content, 'echo: A river?')
})

test('OpenAI lines that are not supported here are rejected by line', { timeout }, async (t) => {
  const { ask, write } = await startAsking(t)
  const body = { model: 'gpt-5', messages: [{ role: 'user', content: 'x' }] }
  let lines = 0
  const line = (over: object, bodyOver: object = {}) =>
    JSON.stringify({
      custom_id: `id ${++lines}`,
      method: 'POST',
      url: '/v1/chat/completions',
      body: { ...body, ...bodyOver },
      ...over,
    })
  const wrong: readonly (readonly [line: string, says: RegExp])[] = [
    [line({ custom_id: undefined }), /custom_id: must be a string/],
    [line({ url: '/v1/embeddings' }), /url: must be \/v1\/chat\/completions/],
    [line({ method: 'GET' }), /method: must be POST/],
    [line({}, { tools: [] }), /body\.tools: is not supported/],
    [line({}, { stream: true }), /body\.stream: is not supported/],
    [
      line({}, { messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }] }),
      /body\.messages\[0\]\.content: must be a string/,
    ],
    [line({}, { messages: [{ role: 'tool', content: 'x' }] }), /body\.messages\[0\]\.role: must be one of/],
    [
      line(
        {},
        {
          messages: [
            { role: 'user', content: 'x', name: 'bob' },
            { role: 'user', content: 'x', name: 'alice' },
          ],
        },
      ),
      /body\.messages\[1\]\.name: must be the same in all messages with the role user/,
    ],
    [
      line({}, { messages: [{ role: 'user', content: 'x', nickname: 'bob' }] }),
      /body\.messages\[0\]\.nickname: is not a known field of a message/,
    ],
    [line({}, { response_format: { type: 'grammar' } }), /body\.response_format\.type: must be one of/],
    [line({}, { model: 'gpt-4o' }), /model: tier user_max cannot use gpt-4o/],
    [line({ custom_id: 'b' }), /^$/],
    [line({ custom_id: 'b' }), /custom_id: line 12 has the same custom_id/],
    [jobLine('without an id'), /custom_id: is required with --format openai/],
  ]
  await write('openai.jsonl', wrong.map(([text]) => text).join('\n'))
  const { code, stderr } = await ask(['batch', 'openai.jsonl', '--format', 'openai'])
  assert.equal(code, 1)
  for (const [place, [, says]] of wrong.entries()) {
    const message = stderr.split('\n').find((text) => text.startsWith(`openai.jsonl:${place + 1}: `))
    assert.match(message ?? '', says, `line ${place + 1}`)
  }
})
