/** Tests what `parley check --calls` finds with paid calls, and that it announces how many it makes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../../test/fake-clock.ts'
import {
  chatCompletion,
  isModelList,
  type Reply,
  reply,
  type Script,
  sendJson,
  startModelServer,
} from '../../../test/model-server.ts'
import { lmStudio, Ollama } from '../../../test/model-servers/desktop-servers.ts'
import { anthropic, KEY, mistral, openRouter } from '../../../test/model-servers/hosted-servers.ts'
import { LlamaCpp } from '../../../test/model-servers/llama-cpp.ts'
import type { Lifetime } from '../../../test/parley.ts'
import { type CheckOptions, checkServer } from '../../../test/support/check-servers.ts'

async function checkCalls(
  t: Lifetime,
  script: Script,
  { upstream, ...options }: Omit<CheckOptions, 'upstream'> & { readonly upstream?: object } = {},
) {
  const server = await startModelServer({ script }, t)
  const checked = await checkServer(t, {
    calls: true,
    env: { KEY },
    ...options,
    upstream: { base_url: server.baseUrl, ...upstream },
  })
  const paid = server.requests.filter(({ method, body }) => method === 'POST' && Array.isArray(body.messages))
  const of = (check: string) => checked.findings.find((finding) => finding.check === check)
  return { ...checked, server, paid, of }
}

const usual: Script = (request) => (isModelList(request) ? reply.models('tiny') : undefined)
/** The server lists its model, and answers calls in this way. */
const calling =
  (script: Script): Script =>
  (request, index) =>
    Array.isArray(request.body.messages) ? script(request, index) : usual(request, index)
const river = '{"river":"Amur"}'

test('without --calls nothing is paid, and it says what would be', async (t) => {
  const { code, paid, findings } = await checkCalls(t, usual, { calls: false })
  assert.deepEqual([code, paid.length], [0, 0])
  assert.match(
    findings.at(-1)?.says ?? '',
    /^no calls were made\. `parley check --calls` makes 5 paid calls to each of 1 target/,
  )
})

test('with --calls it says how many it makes, and makes no more', async (t) => {
  const script = calling(({ body }) => (body.response_format === undefined ? undefined : reply.text(river)))
  // With a stopped clock, a busy machine does not look like a server with one slot.
  const { code, wrong, paid, findings, of } = await checkCalls(t, script, { clock: new FakeClock() })
  assert.deepEqual([code, wrong, paid.length], [0, '', 5])
  const announced = findings.find(({ about }) => about === 'calls')
  assert.equal(announced?.says, 'makes 5 paid calls to each of 1 target')
  for (const [check, says] of [
    ['answer', /^answers in \d+ ms \(\d+ input and \d+ output tokens\)$/],
    ['roles', /^a developer message reaches the model \(sent as \w+; \d+ prompt tokens/],
    ['json', /^answers with JSON that satisfies a schema \(json_schema_strict\)$/],
    ['concurrency', /^answers two concurrent calls/],
  ] as const) {
    assert.match(of(check)?.says ?? '', says)
  }
})

test('the fields of the body are sent with them, as with the calls of jobs', async (t) => {
  const { paid } = await checkCalls(t, usual, { upstream: { body: { max_tokens: 50 } } })
  assert.ok(paid.length > 0)
  for (const { body } of paid) assert.equal(body.max_tokens, 50)
})

const native = { roles: 'native' }
const withKey = { api_key_env: 'KEY' }
const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
const alike = calling(({ body }) =>
  reply.status(200, { body: { ...chatCompletion(body, { content: 'Hello' }), usage } }),
)
const withoutJson: Script = (request, index) =>
  request.body.response_format === undefined ? anthropic()(request, index) : reply.text('I like the Amur.')

type Options = Parameters<typeof checkCalls>[2]
const wrongs: readonly (readonly [name: string, Script, Options, ...wrong: readonly RegExp[]])[] = [
  [
    'a developer message that the template leaves out',
    new Ollama().script,
    { model: 'llama3.2', upstream: native },
    /a developer message \(sent as native\) does not reach the model: (\d+) prompt tokens with it, \1 without/,
    / -> leave out upstreams\.own\.roles, or set it to "merged_system"$/,
  ],
  [
    'a server that always reports the same usage, with the roles that Parley chooses',
    alike,
    {},
    /does not reach the model: 10 prompt tokens.* -> set upstreams\.own\.roles to "no_system"/,
  ],
  ...(['gemma-2', 'mistral-nemo'] as const).map(
    (template) =>
      [
        `the template of ${template} rejects the role`,
        new LlamaCpp({ template }).script,
        { upstream: native },
        /rejects a developer message \(HTTP \d+\): .* -> leave out upstreams\.own\.roles/,
      ] as const,
  ),
  [
    'Mistral, where the role is an invalid tag',
    mistral(),
    { model: 'mistral-small-latest', upstream: { ...native, ...withKey } },
    /rejects a developer message \(HTTP 422\): .*'developer'/,
  ],
  [
    'a server that ignores the schema',
    withoutJson,
    { model: 'claude-sonnet-4-5', upstream: withKey },
    /not the requested JSON \(json_schema_strict\): .* -> .*structured_output to "json_object"/,
  ],
  [
    'a JSON answer that is cut',
    calling(({ body }) => (body.response_format ? reply.truncated('{"river":"Am') : undefined)),
    {},
    /JSON answer was cut off at a length limit \(12 output tokens\) -> raise the limit, .*max_tokens/,
  ],
]

for (const [name, script, options, ...patterns] of wrongs) {
  test(`wrong: ${name}`, async (t) => {
    const { code, wrong } = await checkCalls(t, script, options)
    for (const pattern of patterns) assert.match(wrong, pattern)
    assert.equal(code, 1)
  })
}

test('right: a developer message that the template leaves out, sent as a system message', async (t) => {
  const options = { model: 'llama3.2', upstream: { roles: 'developer_as_system' } }
  const { code, of } = await checkCalls(t, new Ollama().script, options)
  assert.equal(code, 0)
  assert.match(of('roles')?.says ?? '', /reaches the model \(sent as developer_as_system/)
})

test('a server that reports no usage: roles cannot be verified', async (t) => {
  const script = calling(() => (request, response) => {
    const { usage: _usage, ...completion } = chatCompletion(request.body, { content: river })
    sendJson(response, 200, completion)
  })
  const { code, notes } = await checkCalls(t, script)
  assert.equal(code, 0)
  assert.match(
    notes,
    /cannot verify whether developer messages reach the model \(sent as \w+\): the server reports no usage/,
  )
  assert.match(notes, /caps on tokens do not work/)
})

test('a warning: json_object at LM Studio, which rejects it', async (t) => {
  const options = { model: 'qwen2.5-7b-instruct', upstream: { structured_output: 'json_object' } }
  const { of, code } = await checkCalls(t, lmStudio(), options)
  const { ok, warns, says, fix } = of('json') ?? {}
  assert.deepEqual([code, ok, warns], [0, true, true])
  assert.equal(says, 'answers with JSON that satisfies a schema (instruction)')
  assert.match(
    fix ?? '',
    /structured_output to "json_schema" or "none", to avoid a rejected call for each job$/,
  )
})

test('wrong: no credit for completions', async (t) => {
  const options = { model: 'meta-llama/llama-3.2-3b-instruct', upstream: withKey }
  const { code, wrong, paid } = await checkCalls(t, openRouter({ trouble: 'credits' }), options)
  assert.match(wrong, /does not answer \(HTTP 402\): Insufficient credits.* -> add credit/)
  assert.deepEqual([code, paid.length], [1, 1], 'the others would fail for the same reason')
})

test('a call that times out ends the calls to its target', async (t) => {
  const clock = new FakeClock()
  let calls = 0
  const script = calling(() => (++calls === 1 ? undefined : () => clock.advance(2000)))
  const { code, wrong, paid } = await checkCalls(t, script, { clock, upstream: { call_timeout_seconds: 2 } })
  assert.deepEqual([code, paid.length], [1, 2])
  assert.match(
    wrong,
    /does not answer a developer message: The model server did not respond within 2 s\. -> raise upstreams/,
  )
})

test('a server with one slot: two calls take twice as long', async (t) => {
  const clock = new FakeClock()
  const waiting: (() => void)[] = []
  let busy = false
  /** Answers the next waiting call. Only this advances the clock, by a second. */
  const next = () => {
    const answer = waiting.shift()
    if (answer === undefined) return
    clock.advance(1000)
    answer()
  }
  const oneSlot: Reply = (request, response, server) => {
    const answer = () => {
      response.once('close', () => {
        busy = waiting.length > 0
        next()
      })
      reply.text(river)(request, response, server)
    }
    waiting.push(answer)
    if (!busy) {
      busy = true
      next()
    }
  }
  const { code, of } = await checkCalls(
    t,
    calling(() => oneSlot),
    { clock },
  )
  assert.equal(code, 0)
  assert.match(
    of('concurrency')?.says ?? '',
    /does not process calls concurrently: two concurrent calls take 2000 ms, one takes 1000 ms/,
  )
  assert.match(of('concurrency')?.fix ?? '', /upstreams\.own\.max_concurrency/)
})

test('wrong: a server that rejects the second of two calls', async (t) => {
  let last: (() => void) | null = null
  let busy = 0
  const script = calling(() => {
    // The first three calls come one at a time. The last two are concurrent, and the second of them is rejected before the
    // first is answered.
    if (++busy <= 3) return reply.text(river)
    if (busy > 4) {
      return (received, response, server) => {
        reply.status(503, { body: { error: 'server busy, please try again.' } })(received, response, server)
        last?.()
      }
    }
    return (received, response, server) => {
      last = () => reply.text('OK')(received, response, server)
    }
  })
  const { code, wrong } = await checkCalls(t, script)
  assert.equal(code, 1)
  assert.match(
    wrong,
    /fails when it receives two concurrent calls \(HTTP 503\): server busy.* -> set upstreams\.own\.max_concurrency to 1/,
  )
})
