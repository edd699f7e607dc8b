/** Tests `parley batch`: what it reads, writes and rejects, its exit codes, and OpenAI's batch files. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import test, { after } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { startReceiver } from '../receiver.ts'
import { jobLine, rowsOf, startAsking } from './asking.ts'
import { assertEnded, reportEach, reported } from './mistakes.ts'
import { startReadGate } from './read-gate.ts'

/**
 * The tests share a server and a model server. They use different conversations, because the server caches the answers of equal
 * ones.
 */
const models = await startModelServer({
  script: ({ body }) => {
    if (body.response_format) return reply.text('{"river": "Amur"}')
    const [text] = /river|\[\[fail\]\]/.exec(JSON.stringify(body)) ?? []
    if (text === 'river') return reply.text('{"km": 12345678901234567890}')
    return text === undefined ? undefined : reply.status(400)
  },
})
after(() => models.close())
const settings = {
  callbacks: { allow_networks: ['127.0.0.0/8'] },
  tiers: { user_max: { max_input_tokens: 50, reads_per_minute: 1_000_000 } },
}
const { ask, write, place, server } = await startAsking({ after }, { upstream: models.baseUrl, settings })

const read = (name: string) => readFileSync(join(place.folder, name), 'utf8')
const filesLike = (pattern: RegExp) =>
  readdirSync(place.folder).filter((name) => pattern.test(name) && !name.startsWith('parley.db'))

test('the results are in the order of the lines, with what the caller calls them', async () => {
  const before = models.requests.length
  const lines = [
    jobLine('one', { custom_id: 'first' }),
    '',
    jobLine('a river', { response_format: { format: 'json' } }),
    jobLine('three', { model: 'little-model' }),
  ]
  await write('jobs.jsonl', `\ufeff${lines.join('\r\n')}`)
  const ended = await ask(['batch', 'jobs.jsonl', '--model', 'little-model=gpt-5-mini', '--json'])
  assert.equal(ended.code, 0, ended.stderr)
  const out = 'jobs.jsonl.results.jsonl'
  const counts = { lines: 3, completed: 3, failed: 0, invalid: 0, expired: 0 }
  assert.deepEqual(JSON.parse(ended.stdout), { ...counts, out })
  assert.match(ended.stderr, /^3 lines: 3 completed\. Results: jobs\.jsonl\.results\.jsonl\n$/)
  assert.match(read(out), /"response_content":\{"km":12345678901234567890\}/)
  const rows = rowsOf(read(out))
  assert.deepEqual(
    rows.map(({ line, custom_id, status }) => [line, custom_id, status]),
    [
      [1, 'first', 'completed'],
      [3, undefined, 'completed'],
      [4, undefined, 'completed'],
    ],
  )
  assert.equal(rows[2]?.result?.response_content, 'echo: three')
  assert.deepEqual(filesLike(/journal|lock|part/), [])

  const again = await ask(['batch', 'jobs.jsonl', '--model', 'gpt-5-mini'])
  assertEnded(again, { code: 1, stderr: /results\.jsonl already exists.*--restart/ })
  assert.equal(models.requests.length - before, 3, 'nothing is paid for again by mistake')
})

test('from standard input to standard output, and what fails ends with 2', async () => {
  const stdin = `${jobLine('Hello')}\n${jobLine('[[fail]]')}\n`
  const ended = await ask(['batch', '-', '--out', 'out.jsonl'], { stdin })
  assertEnded(ended, { code: 2, stderr: /^2 lines: 1 completed, 1 failed\. Results: out\.jsonl\n$/ })
  await write('two.jsonl', stdin)
  const printed = await ask(['batch', 'two.jsonl', '--out', '-'])
  assert.deepEqual(
    rowsOf(printed.stdout).map(({ line, status, error }) => [line, status, error?.code]),
    [
      [1, 'completed', undefined],
      [2, 'failed', 'model_error'],
    ],
  )
  reported(await ask(['batch', '-'], { stdin }), /Pass --out FILE/)
})

test('a named pipe or a device gets the results, and is not replaced by a file', async (t) => {
  await write('piped.jsonl', jobLine('Hello'))
  const pipe = join(place.folder, 'pipe')
  if (spawnSync('mkfifo', [pipe]).status !== 0) return t.skip('this system has no mkfifo')
  const reader = place.spawn(['cat', pipe])
  assertEnded(await ask(['batch', 'piped.jsonl', '--out', 'pipe']), { code: 0 })
  assert.ok(statSync(pipe).isFIFO())
  await reader.exited
  assert.match(reader.stdout, /^{"line":1,.*\n$/)
})

test('invalid lines are reported before anything is sent, and can be skipped', async () => {
  const before = models.requests.length
  const wrong: readonly (readonly [line: string, says: RegExp])[] = [
    ['{"model":', /is not JSON: /],
    ['[]', /must be an object/],
    ['{"model":"gpt-5-mini"}', /response_format: is required/],
    [
      jobLine('x', { messages: [{ role: 'tool', content: 'x' }] }),
      /messages\[0\]\.role: must be one of system, /,
    ],
    [
      jobLine('x', { messages: [{ role: 'system', content: 'x' }] }),
      /at least one message whose role is user/,
    ],
    [jobLine('x', { timeout: 30 }), /timeout: is only for single creates/],
    [jobLine('x', { temperature: 1 }), /temperature: is not a known field/],
    [jobLine('x', { model: 'gpt-9' }), /model: tier user_max cannot use gpt-9; it can use gpt-5/],
    [jobLine('x', { message_cache_ttl: 1 }), /message_cache_ttl: must be >= 180/],
    [
      jobLine('x', { response_format: { format: 'json', schema: { oneOf: {} } } }),
      /response_format\.schema\.oneOf: /,
    ],
    [jobLine('x', { callback: { callback_url: 'ftp://x' } }), /callback\.callback_url: must be an http/],
    [jobLine('word '.repeat(100)), /messages: have about 10\d tokens; tier user_max allows at most 50/],
    [jobLine('x', { custom_id: 7 }), /custom_id: must be a string/],
  ]
  await write('invalid.jsonl', [jobLine('the only valid one'), ...wrong.map(([line]) => line)].join('\n'))
  const refused = await ask(['batch', 'invalid.jsonl'])
  assert.deepEqual([refused.code, refused.stdout], [1, ''])
  const messages = refused.stderr.split('\n')
  for (const [place, [line, says]] of wrong.entries()) {
    assert.match(messages[place] ?? '', new RegExp(`^invalid\\.jsonl:${place + 2}: `), line)
    assert.match(messages[place] ?? '', says, line)
  }
  assert.match(refused.stderr, /13 of 14 lines are invalid, so nothing was sent\. .*--skip-invalid/)
  assert.equal(models.requests.length, before)
  assert.ok(!existsSync(join(place.folder, 'invalid.jsonl.results.jsonl.journal')))

  const skipped = await ask(['batch', 'invalid.jsonl', '--skip-invalid'])
  assertEnded(skipped, { code: 2, stderr: /14 lines: 1 completed, 13 invalid\./ })
  const [first, ...others] = rowsOf(read('invalid.jsonl.results.jsonl'))
  assert.deepEqual([first?.line, first?.result?.response_content], [1, 'echo: the only valid one'])
  assert.deepEqual(
    others.map(({ line, status }) => [line, status]),
    wrong.map((_, index) => [index + 2, 'invalid']),
  )
})

test('a job that only the server can reject is reported by its line, and the run continues without it', async () => {
  const before = models.requests.length
  const inside = jobLine('x', { callback: { callback_url: 'http://10.0.0.1:9/hook' } })
  const lines = Array.from({ length: 40 }, (_, index) => jobLine(`next to a rejected one ${index}`))
  await write('rejected.jsonl', [...lines, inside, jobLine('last')].join('\n'))
  const stopped = await ask(['batch', 'rejected.jsonl'])
  assert.equal(stopped.code, 1)
  const says = /The server rejected line 41: callback\.callback_url: .*--skip-invalid to leave it out/
  assert.match(stopped.stderr, says)
  assert.match(stopped.stderr, /Run the same command again/)
  const ended = await ask(['batch', 'rejected.jsonl', '--skip-invalid'])
  assertEnded(ended, { code: 2, stderr: /42 lines: 41 completed, 1 invalid/ })
  assert.equal(models.requests.length - before, 41)
  const rows = rowsOf(read('rejected.jsonl.results.jsonl'))
  assert.match(rows[40]?.error?.message ?? '', /is not a public address/)
})

test('numbers in payloads and schemas are sent as they were written', async (t) => {
  const receiver = await startReceiver({}, t)
  const callback = { callback_url: `${receiver.url}/hook`, callback_payload: { order: 0 } }
  const stdin = jobLine('Hello', { callback }).replace('"order":0', '"order":12345678901234567890')
  assertEnded(await ask(['batch', '-', '--out', 'numbers.jsonl'], { stdin }), { code: 0 })
  const [post] = await receiver.received(1)
  assert.match(String(post?.body), /"order":12345678901234567890/)
})

for (const [name, refuseFirst] of [
  ['reads are spread so that the limit is not met', 0],
  ['a limit of reads that is met anyway is waited out', 2],
] as const) {
  test(name, async (t) => {
    const stdin = Array.from({ length: 90 }, (_, index) => jobLine(`read ${refuseFirst} ${index}`)).join('\n')
    const gate = await startReadGate(t, server.url, { reads: 3, windowS: 2, refuseFirst })
    const out = `reads-${refuseFirst}.jsonl`
    assertEnded(await ask(['batch', '-', '--out', out], { stdin, env: { PARLEY_URL: gate.url } }), {
      code: 0,
    })
    assert.ok(gate.reads() >= 2 && gate.reads() < 30, String(gate.reads()))
    assert.equal(gate.refused(), refuseFirst)
    assert.equal(gate.earlyAfterRefusal(), 0, 'it stays away for as long as it is told to')
  })
}

test('user errors and rejected requests have their own exit codes', async (t) => {
  await write('right.jsonl', jobLine('Hello'))
  await write('empty.jsonl', '\n\n')
  await write('damaged.jsonl', jobLine('Hello'))
  await write('damaged.jsonl.results.jsonl.journal', 'not of ours\n')
  const folder = 'batch right.jsonl --out no/such/folder.jsonl'
  const mistakes = [
    { args: 'batch none.jsonl', says: /none\.jsonl does not exist/ },
    { args: 'batch empty.jsonl', says: /empty\.jsonl contains no jobs/ },
    { args: folder, says: /Check that the folder of --out exists/ },
    { args: 'batch right.jsonl --out a --key prl_wrong', code: 3, says: /API key/ },
    { args: 'batch right.jsonl --out b --url http://127.0.0.1:9', code: 4, says: /No response from/ },
    { args: 'batch right.jsonl --out - --json', says: /choose one/ },
    { args: 'batch right.jsonl --model =x', says: /FROM=TO/ },
    { args: 'batch right.jsonl --concurrency 0', says: /from 1 to 100000/ },
    { args: 'batch damaged.jsonl', says: /not a journal of this version.*--restart/ },
  ]
  await reportEach(t, mistakes, ask)
  assert.deepEqual(filesLike(/\.lock$/), [])
})

const openaiLine = (custom_id: string | undefined, body: object, over: object = {}) => {
  const messages = [{ role: 'user', content: 'x' }]
  const line = { custom_id, method: 'POST', url: '/v1/chat/completions' }
  return JSON.stringify({ ...line, body: { model: 'gpt-5', messages, ...body }, ...over })
}

test('OpenAI batch files are read, and results written as theirs', async () => {
  const schema = {
    type: 'object',
    properties: { river: { type: 'string' } },
    required: ['river'],
    additionalProperties: false,
  }
  const json_schema = { name: 'river', strict: true, schema, description: 'a river' }
  const asking = { role: 'user', content: 'A name?', name: 'me' }
  const line = (id: string, body: object) =>
    openaiLine(id, { model: 'gpt-4o-mini', messages: [{ role: 'system', content: 'Hi.' }, asking], ...body })
  const ignored = { top_k: 5, n: 1, stream: false, user: 'me', metadata: { customer: 'acme' } }
  await write(
    'openai.jsonl',
    [
      line('a', { max_completion_tokens: 100, temperature: 0, seed: null, ...ignored }),
      line('b', { response_format: { type: 'json_schema', json_schema } }),
      line('c', { messages: [{ role: 'user', content: '[[x]]' }], response_format: { type: 'text' } }),
    ].join('\n'),
  )
  const command = ['batch', 'openai.jsonl', '--model', 'gpt-4o-mini=gpt-5-mini']
  const refused = await ask(command)
  assert.equal(refused.code, 1)
  const says = /openai\.jsonl:1: body\.top_k: is not supported; pass --drop top_k to ignore it/
  assert.match(refused.stderr, says)
  assertEnded(await ask([...command, '--drop', 'top_k', '--format', 'openai']), { code: 0 })
  const first = models.requests.find(({ body }) => body.max_tokens === 100)?.body
  assert.ok(first && !('seed' in first) && !('metadata' in first))
  assert.equal(first.temperature, 0)
  const ofAcme = await ask(['jobs', 'list', '--metadata', 'customer=acme', '--json'])
  assert.equal(JSON.parse(ofAcme.stdout).length, 1)
  const asked = models.requests.find(({ body }) => body.response_format)?.body
  assert.equal(asked?.model, 'gpt-5-mini')
  assert.match(JSON.stringify(asked?.response_format), /"description":"a river"/)
  const rows = read('openai.jsonl.results.jsonl')
    .trim()
    .split('\n')
    .map((text) => JSON.parse(text))
  assert.deepEqual(
    rows.map(({ custom_id, error }) => [custom_id, error]),
    ['a', 'b', 'c'].map((id) => [id, null]),
  )
  const { status_code, request_id, body } = rows[1].response
  assert.equal(status_code, 200)
  const { created, ...completion } = body
  assert.ok(Math.abs(created - Date.now() / 1000) < 60)
  const message = { role: 'assistant', content: '{"river":"Amur"}', refusal: null }
  assert.deepEqual(completion, {
    id: `chatcmpl-${request_id}`,
    object: 'chat.completion',
    model: 'gpt-5-mini',
    choices: [{ index: 0, message, logprobs: null, finish_reason: 'stop' }],
  })
  assert.equal(rows[0].response.body.choices[0].message.content, 'echo: A name?')
})

test('json_object in an OpenAI batch file is an object, and a schema next to it is used', async () => {
  const schema = { type: 'object', properties: { river: { type: 'string' } } }
  const line = (id: string, response_format: object) =>
    openaiLine(id, { messages: [{ role: 'user', content: `object ${id}` }], response_format })
  await write(
    'objects.jsonl',
    [line('any', { type: 'json_object' }), line('own', { type: 'json_object', schema })].join('\n'),
  )
  assertEnded(await ask(['batch', 'objects.jsonl']), { code: 0 })
  const sent = (id: string) =>
    models.requests.find(({ body }) => JSON.stringify(body).includes(`object ${id}`))?.body.response_format
  assert.deepEqual(sent('any'), { type: 'json_object' })
  assert.deepEqual(sent('own'), {
    type: 'json_schema',
    json_schema: { name: 'answer', schema, strict: false },
  })
})

test('OpenAI lines that are not supported here are rejected by line', async () => {
  const user = { role: 'user', content: 'x' }
  const parts = [{ role: 'user', content: [{ type: 'text', text: 'x' }] }]
  const wrong: readonly (readonly [line: string, says: RegExp])[] = [
    [openaiLine(undefined, {}), /custom_id: must be a string/],
    [openaiLine('2', {}, { url: '/v1/embeddings' }), /url: must be \/v1\/chat\/completions/],
    [openaiLine('3', {}, { method: 'GET' }), /method: must be POST/],
    [openaiLine('4', { tools: [] }), /body\.tools: is not supported/],
    [openaiLine('5', { stream: true }), /body\.stream: is not supported/],
    [openaiLine('6', { messages: parts }), /body\.messages\[0\]\.content: must be a string/],
    [openaiLine('7', { messages: [{ ...user, role: 'tool' }] }), /body\.messages\[0\]\.role: must be one of/],
    [
      openaiLine('8', {
        messages: [
          { ...user, name: 'bob' },
          { ...user, name: 'alice' },
        ],
      }),
      /body\.messages\[1\]\.name: must be the same in all messages with the role user/,
    ],
    [
      openaiLine('8b', { messages: [{ ...user, nickname: 'bob' }] }),
      /body\.messages\[0\]\.nickname: is not a known field of a message/,
    ],
    [
      openaiLine('9', { response_format: { type: 'grammar' } }),
      /body\.response_format\.type: must be one of/,
    ],
    [openaiLine('10', { model: 'gpt-4o' }), /model: tier user_max cannot use gpt-4o/],
    [openaiLine('b', {}), /^$/],
    [openaiLine('b', {}), /custom_id: line 12 has the same custom_id/],
    [
      openaiLine('11', { response_format: { type: 'json_object', schema: 'river' } }),
      /body\.response_format\.schema: must be an object/,
    ],
    [jobLine('without an id'), /custom_id: is required with --format openai/],
  ]
  await write('unsupported.jsonl', wrong.map(([text]) => text).join('\n'))
  const { code, stderr } = await ask(['batch', 'unsupported.jsonl', '--format', 'openai'])
  assert.equal(code, 1)
  for (const [place, [, says]] of wrong.entries()) {
    const message = stderr.split('\n').find((text) => text.startsWith(`unsupported.jsonl:${place + 1}: `))
    assert.match(message ?? '', says, `line ${place + 1}`)
  }
})
