import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { MAX_UPSTREAM_MESSAGE_LENGTH, maskFor } from './mask.ts'
import type { Reply } from './model-server.ts'
import {
  maskReply,
  readCompletion,
  readFailure,
  readLargeCompletion,
  sumOfTokens,
} from './read-completion.ts'

const KEY = 'k/ey+with="odd\\signs'
const mask = maskFor([KEY])

const read = (value: unknown) => readCompletion(200, JSON.stringify(value), mask)
const fail = (status: number, body: unknown) =>
  readFailure(status, typeof body === 'string' ? body : JSON.stringify(body), null, mask)

function choice(message: unknown, finish = 'stop') {
  return { choices: [{ message, finish_reason: finish }], usage: { prompt_tokens: 3, completion_tokens: 9 } }
}

function errorOf(reply: Reply) {
  assert.ok(reply.kind === 'error')
  return reply
}

/** Describes whether a reply was truncated, and whether another call may help. */
function kindOf(reply: Reply): string {
  if (reply.kind === 'refused') return reply.kind
  if (reply.truncated) return `truncated ${reply.kind}`
  return reply.kind === 'answer' ? reply.kind : reply.retryable ? 'retryable' : 'final'
}

describe('a chat completion', () => {
  it('truncated by the length limit delivers what arrived, and is marked as truncated', () => {
    assert.deepEqual(read(choice({ content: 'Once upon' }, 'length')), {
      kind: 'answer',
      text: 'Once upon',
      tokens: { input: 3, output: 9 },
      truncated: true,
    })
  })

  it('truncated before any text is an error that used tokens', () => {
    for (const content of ['', null, undefined, []]) {
      const got = errorOf(read(choice({ content, reasoning: 'Let me see' }, 'length')))
      assert.deepEqual([got.retryable, got.truncated, got.tokens], [false, true, { input: 3, output: 9 }])
    }
  })

  it('is truncated, whatever the server calls the limit', () => {
    const limits = ['length', 'model_length', 'MAX_TOKENS', 'model_context_window_exceeded', 'repetition']
    for (const finish of limits) {
      assert.equal(kindOf(read(choice({ content: 'Once upon' }, finish))), 'truncated answer', finish)
    }
    for (const finish of ['stop', 'eos_token', 'tool_calls', 'constructor', '', null, 7]) {
      const got = read({ choices: [{ message: { content: 'All' }, finish_reason: finish }] })
      assert.deepEqual(got, { kind: 'answer', text: 'All', tokens: { input: 0, output: 0 } })
    }
  })

  it('that a filter stopped is a refusal, also without a message', () => {
    for (const finish of ['content_filter', 'content_filter: RECITATION', 'SAFETY', 'sensitive']) {
      assert.equal(read(choice({ content: 'Once' }, finish)).kind, 'refused', finish)
      assert.equal(read(choice(undefined, finish)).kind, 'refused', finish)
    }
  })

  it('that the server broke off is an error that another call may avoid, never half an answer', () => {
    for (const finish of ['abort', 'error', 'insufficient_system_resource', 'network_error']) {
      const got = errorOf(read(choice({ content: 'Once upon' }, finish)))
      assert.deepEqual([got.retryable, got.tokens], [true, { input: 3, output: 9 }], finish)
      assert.ok(got.message.includes(finish))
    }
  })

  it('with an empty text is an answer', () => {
    assert.equal(read(choice({ content: '' })).kind, 'answer')
  })

  it('whose content is an array of parts has the text of its text parts', () => {
    const parts = [
      { type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] },
      { type: 'text', text: 'Hello' },
      { type: 'output_text', text: ', you' },
      { type: 'text', text: 7 },
      null,
    ]
    const got = read(choice({ content: parts }))
    assert.equal(got.kind === 'answer' && got.text, 'Hello, you')
  })

  const tokensOf = (usage: unknown) => read({ choices: [{ message: { content: 'a' } }], usage }).tokens

  it('counts the cached part of its input, wherever it is reported, also over several calls', () => {
    const usage = { prompt_tokens: 9, completion_tokens: 2 }
    const cached = { input: 9, output: 2, cached: 4 }
    assert.deepEqual(tokensOf({ ...usage, prompt_tokens_details: { cached_tokens: 4 } }), cached)
    // Moonshot puts the cached tokens next to the counts.
    assert.deepEqual(tokensOf({ ...usage, cached_tokens: 4 }), cached)
    const plain = { input: 1, output: 1 }
    assert.deepEqual(sumOfTokens(cached, cached), { input: 18, output: 4, cached: 8 })
    assert.deepEqual(sumOfTokens(cached, plain), { input: 10, output: 3, cached: 4 })
    assert.deepEqual(sumOfTokens(plain, cached), { input: 10, output: 3, cached: 4 })
    assert.deepEqual(sumOfTokens(plain, plain), { input: 2, output: 2 })
  })

  it('without usage, or with malformed usage, counts no tokens', () => {
    for (const usage of [undefined, null, 7, [], { prompt_tokens: -1, completion_tokens: '9' }]) {
      assert.deepEqual(tokensOf(usage), { input: 0, output: 0 })
    }
  })

  it('counts the tokens of reasoning that the server counts in the total only', () => {
    // Google's OpenAI-compatible API counts reasoning only in the total.
    const google = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 105 }
    assert.deepEqual(tokensOf(google), { input: 9, output: 96 })
    const details = { completion_tokens_details: { reasoning_tokens: 94 } }
    const xai = { prompt_tokens: 32, completion_tokens: 9, total_tokens: 135, ...details }
    assert.deepEqual(tokensOf(xai), { input: 32, output: 103 })
    const openai = { prompt_tokens: 32, completion_tokens: 103, total_tokens: 135, ...details }
    assert.deepEqual(tokensOf(openai), { input: 32, output: 103 })
    assert.deepEqual(tokensOf({ completion_tokens: 3, total_tokens: 105 }), { input: 0, output: 3 })
    const prompt_tokens_details = { cached_tokens: 4328 }
    const apart = { prompt_tokens: 4142, completion_tokens: 254, total_tokens: 8724, prompt_tokens_details }
    assert.deepEqual(tokensOf(apart), { input: 8470, output: 254, cached: 4328 })
  })

  it('without a message counts its tokens, and may have reached the length limit', () => {
    for (const finish of ['stop', 'length']) {
      const got = read(choice(undefined, finish))
      assert.equal(kindOf(got), finish === 'length' ? 'truncated error' : 'final')
      assert.deepEqual(got.tokens, { input: 3, output: 9 })
    }
    assert.deepEqual(read({ choices: [], usage: { prompt_tokens: 5 } }).tokens, { input: 5, output: 0 })
  })

  it('is recognized only with a choice, a message and text content', () => {
    const choices = [null, [], [null], [[]], {}, [{}], [{ message: 'hello' }]].map((all) => ({
      choices: all,
    }))
    const contents = [{ content: null }, { content: ['a'] }, {}].map((message) => choice(message))
    for (const value of [null, 7, 'text', [], {}, ...choices, ...contents]) {
      assert.equal(kindOf(read(value)), 'final', JSON.stringify(value))
    }
  })

  it('that is blank, because a gateway kept the connection alive and then got no answer, may come with another call', () => {
    const kinds = ['', '\n\n   \n', '\r\n'.repeat(40_000), '<html>It works!</html>'].map((body) =>
      kindOf(readCompletion(200, body, mask)),
    )
    assert.deepEqual(kinds, ['retryable', 'retryable', 'retryable', 'final'])
  })

  it('without choices, as Google sends it now and then, may have some the next time', () => {
    const usage = { prompt_tokens: 7, completion_tokens: 0, total_tokens: 7 }
    for (const choices of [undefined, null, []]) {
      const got = read({ object: 'chat.completion', choices, usage })
      assert.deepEqual([kindOf(got), got.tokens], ['retryable', { input: 7, output: 0 }])
    }
  })

  it('with an empty message may have a text the next time, but not if the model did something else', () => {
    const kindWith = (message: object) =>
      kindOf(read({ object: 'chat.completion', ...choice({ role: 'assistant', ...message }) }))
    const empty = [{}, { content: null }, { content: null, refusal: null, tool_calls: [], reasoning: '' }]
    for (const message of empty) assert.equal(kindWith(message), 'retryable')
    for (const other of [
      { tool_calls: [{ id: 'a' }] },
      { reasoning_content: 'So' },
      { content: [{ type: 'thinking' }] },
    ]) {
      assert.equal(kindWith({ content: null, ...other }), 'final')
    }
  })

  it('that contains an error, as gateways send it, is that error', () => {
    const busy = errorOf(read({ error: { code: 502, message: 'Provider is down' } }))
    assert.deepEqual([busy.retryable, busy.message, busy.code], [true, 'Provider is down', '502'])
    const error = { code: 429, message: 'Slow' }
    const half = { message: { content: 'half' }, finish_reason: 'error', error }
    assert.equal(kindOf(read({ choices: [half] })), 'retryable')
    assert.equal(kindOf(read({ error: { code: 'bad_thing', message: 'No' } })), 'final')
    assert.equal(kindOf(read({ error: { code: 'content_filter', message: 'No' } })), 'refused')
    const slow = errorOf(read({ error: { code: '429', message: 'Slow' } }))
    assert.deepEqual([slow.retryable, slow.code], [true, '429'])
    assert.equal(errorOf(read({ error: { code: 400, message: 'Invalid schema' } })).rejectsJsonMode, true)
    const path = 'Unexpected endpoint or method. (POST /chat/completions)'
    assert.equal(errorOf(read({ error: path })).message, path)
  })
})

it('a large completion is masked on the thread that knows the secrets: errors with their codes, never answers', () => {
  const readLarge = (value: unknown) => {
    const body = Buffer.from(JSON.stringify(value))
    return maskReply(readLargeCompletion({ status: 200, body }), maskFor(['secret-0123']))
  }
  const { message, code } = errorOf(
    readLarge({ error: { message: 'It was secret-0123.', code: 'secret-0123' } }),
  )
  assert.deepEqual([message, code], ['It was ***.', '***'])
  const answer = readLarge(choice({ content: 'It was secret-0123.' }))
  assert.equal(answer.kind === 'answer' && answer.text, 'It was secret-0123.')
})

describe('the message of an error response', () => {
  const messageOf = (body: string | null) => errorOf(readFailure(500, body, null, mask)).message

  it('is found in every field that servers use', () => {
    assert.equal(messageOf('{"error":{"message":"A"}}'), 'A')
    assert.equal(messageOf('[{"error":{"message":"B"}}]'), 'B')
    assert.equal(messageOf('{"error":"C"}'), 'C')
    assert.equal(messageOf('{"message":"D"}'), 'D')
    assert.equal(messageOf('{"detail":"E"}'), 'E')
    assert.equal(messageOf('{"detail":{"error":"F"}}'), 'F')
    assert.equal(
      messageOf('{"detail":[{"loc":["body","messages",0],"msg":"Field required","type":"missing"}]}'),
      'body.messages.0: Field required',
    )
    assert.equal(
      messageOf('{"object":"error","message":{"detail":[{"loc":["body"],"msg":"G"},{"msg":"H"}]},"code":1}'),
      'body: G; H',
    )
    assert.equal(messageOf('{"error":{"message":{"text":1},"detail":"I"}}'), 'I')
    assert.equal(messageOf('{"errors":[{"message":"J"},{"message":"K"}]}'), 'J; K')
    assert.equal(messageOf('{"html-message":"L"}'), 'L')
    assert.equal(messageOf('upstream connect error'), 'upstream connect error')
  })

  it('is that of the provider behind a gateway', () => {
    const gateway = (raw: unknown) =>
      JSON.stringify({ error: { message: 'Provider returned error', code: 400, metadata: { raw } } })
    const schema = { error: { message: 'Invalid schema for response_format', code: null } }
    assert.equal(messageOf(gateway(JSON.stringify(schema))), schema.error.message)
    assert.equal(messageOf(gateway(schema)), schema.error.message)
    assert.equal(messageOf(gateway('upstream connect error')), 'upstream connect error')
    for (const raw of ['', '{}', null, 7]) assert.equal(messageOf(gateway(raw)), 'Provider returned error')
    assert.equal(errorOf(fail(400, gateway(JSON.stringify(schema)))).rejectsJsonMode, true)
    const embedded = readCompletion(200, gateway('upstream connect error'), mask)
    assert.equal(errorOf(embedded).message, 'upstream connect error')
  })

  it('is our own if the server sent none', () => {
    const deep = '{"error":'.repeat(200_000)
    assert.equal(messageOf(`${deep}1${'}'.repeat(200_000)}`), 'The model server responded with 500.')
    for (const body of ['', null, '<html>…</html>', '{}', '[]', 'null', '{"error":{"message":" "}}']) {
      assert.equal(messageOf(body), 'The model server responded with 500.')
    }
  })

  it('is truncated, never within a surrogate pair', () => {
    for (const start of ['', 'a']) {
      const long = messageOf(JSON.stringify({ message: start + '\u{1F600}'.repeat(400) }))
      assert.ok(long.length <= MAX_UPSTREAM_MESSAGE_LENGTH && long.length > MAX_UPSTREAM_MESSAGE_LENGTH - 3)
      assert.ok(long.isWellFormed())
      assert.ok(long.endsWith('…'))
    }
  })

  it('comes with the code of the error, if that is a word', () => {
    const codeOf = (body: string) => errorOf(fail(429, body)).code
    const quota = '{"error":{"message":"a","type":"b","code":"insufficient_quota"}}'
    assert.equal(codeOf(quota), 'insufficient_quota')
    assert.equal(codeOf('{"error":{"message":"a","type":"server_error","code":500}}'), 'server_error')
    assert.equal(codeOf('{"message":"a","code":"model_not_found"}'), 'model_not_found')
    assert.equal(codeOf('{"error":{"code":"It was Bearer xyz"}}'), null)
    assert.equal(codeOf('{"error":{"code":"sk-abcdefghij"}}'), '***')
    assert.equal(codeOf('{"detail":"a"}'), null)
  })

  it('shows whether the server rejects the schema or the way of asking for JSON', () => {
    const rejects = (status: number, body: unknown) => errorOf(fail(status, body)).rejectsJsonMode
    const llama = { error: { code: 500, message: "Pattern must start with '^' and end with '$'", type: 'x' } }
    assert.equal(rejects(500, llama), true)
    assert.equal(rejects(400, { error: { message: 'Invalid', param: 'response_format' } }), true)
    assert.equal(rejects(422, { detail: 'the grammar is too large' }), true)
    assert.equal(rejects(400, { error: { message: 'Failed to initialize samplers: std::exception' } }), true)
    const tensorRt = 'Request is specified with GuidedDecodingParams, but GuidedDecoder is not setup.'
    assert.equal(rejects(400, { object: 'error', message: tensorRt, type: 'BadRequestError' }), true)
    const groq = {
      message: 'Failed to generate JSON. Please adjust your prompt.',
      code: 'json_validate_failed',
    }
    assert.equal(rejects(400, { error: groq }), true)
    const google = { code: 400, message: 'Request contains an invalid argument.', status: 'INVALID_ARGUMENT' }
    assert.equal(rejects(400, [{ error: google }]), true)
    const openRouter = 'No endpoints found that can handle the requested parameters.'
    assert.equal(rejects(404, { error: { message: openRouter, code: 404 } }), true)
    assert.equal(rejects(404, { error: { message: 'No endpoints found for x/y.', code: 404 } }), false)
    assert.equal(rejects(500, { error: { message: 'out of memory' } }), false)
    assert.equal(rejects(503, llama), false)
    // The decisive word counts even if it is masked because the settings contain it.
    const masked = readFailure(400, '{"detail":"xgrammar failed"}', null, maskFor(['xgrammar']))
    assert.ok(masked.kind === 'error' && masked.rejectsJsonMode && masked.message === '*** failed')
  })

  it('is one line without control characters', () => {
    assert.equal(messageOf(JSON.stringify({ message: 'a\r\n b\u0000\tc' })), 'a b c')
  })

  it('never contains the key in any spelling, nor an Authorization header', () => {
    for (const spelling of [KEY, encodeURIComponent(KEY), JSON.stringify(KEY)]) {
      const shown = messageOf(JSON.stringify({ message: `for key ${spelling} nothing` }))
      assert.ok(!shown.includes('with'), shown)
    }
    assert.equal(
      messageOf('{"message":"got Authorization: Bearer abc.def-1, sorry"}'),
      'got Authorization: Bearer ***, sorry',
    )
    assert.equal(messageOf('{"message":"got x-api-key: abc.def"}'), 'got x-api-key: ***')
    assert.equal(messageOf('{"message":"wrong: sk-proj-ab***yz."}'), 'wrong: ***')
  })

  it('is masked before it is truncated', () => {
    const shown = messageOf(JSON.stringify({ message: 'x'.repeat(MAX_UPSTREAM_MESSAGE_LENGTH - 8) + KEY }))
    assert.ok(!shown.includes('k/ey'), shown)
  })

  it('is a refusal if any field has the code of a policy breach', () => {
    const portkey = { message: 'The guardrail checks failed.', type: 'hooks_failed', code: null }
    assert.equal(fail(400, { error: { type: 'content_policy_violation' } }).kind, 'refused')
    assert.equal(fail(403, { code: 'content_filter', message: 'x' }).kind, 'refused')
    assert.equal(fail(446, { error: portkey }).kind, 'refused')
  })

  it('is a refusal if the message says so where no code does', () => {
    const kindOf = (status: number, body: unknown) => fail(status, body).kind
    const xai = {
      code: 'The caller does not have permission to execute the specified operation',
      error: 'Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO',
    }
    assert.equal(kindOf(403, xai), 'refused')
    const openai =
      'Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again.'
    assert.equal(kindOf(400, { error: { message: openai, code: 'invalid_prompt' } }), 'refused')
    const litellm =
      'litellm.BadRequestError: litellm.ContentPolicyViolationError: AzureException - The response was filtered'
    assert.equal(kindOf(400, { error: { message: litellm, type: null, code: '400' } }), 'refused')
    assert.equal(kindOf(400, { error: { message: 'Content Exists Risk' } }), 'refused')
    const alibaba = {
      code: 'data_inspection_failed',
      message: 'Input data may contain inappropriate content.',
    }
    assert.equal(kindOf(400, { error: alibaba }), 'refused')
    assert.equal(kindOf(429, { error: { message: openai } }), 'error')
    assert.equal(kindOf(403, { error: { message: 'Access to the chat endpoint is denied' } }), 'error')
    assert.equal(kindOf(400, { error: { message: `messages.0: ${'x'.repeat(300)} ${openai}` } }), 'error')
  })

  it('is a refusal if a gateway or the provider behind it rejects the conversation', () => {
    const kindOf = (metadata: unknown) => fail(403, { error: { code: 403, message: 'No', metadata } }).kind
    assert.equal(kindOf({ reasons: ['violence'], flagged_input: 'a', provider_name: 'OpenAI' }), 'refused')
    assert.equal(kindOf({ raw: '{"error":{"code":"content_filter","message":"a"}}' }), 'refused')
    assert.equal(kindOf({ raw: '{"error":{"code":"unsupported_country","message":"a"}}' }), 'error')
    assert.equal(kindOf({ raw: 'content_filter' }), 'error')
  })
})
