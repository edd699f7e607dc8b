/** Tests `parley batch`: what it reads, writes and rejects, and its exit codes. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { startReceiver } from '../receiver.ts'
import { jobLine, rowsOf, startAsking } from './asking.ts'
import { startReadGate } from './read-gate.ts'

const timeout = 60_000

test('the results are in the order of the lines, with what the caller calls them', { timeout }, async (t) => {
  const models = await startModelServer(
    {
      script: ({ body }) =>
        /river/.test(JSON.stringify(body)) ? reply.text('{"km": 12345678901234567890}') : undefined,
    },
    t,
  )
  const { ask, write, place } = await startAsking(t, { upstream: models.baseUrl })
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
  assert.deepEqual(JSON.parse(ended.stdout), {
    lines: 3,
    completed: 3,
    failed: 0,
    invalid: 0,
    expired: 0,
    out,
  })
  assert.match(ended.stderr, /^3 lines: 3 completed\. Results: jobs\.jsonl\.results\.jsonl\n$/)
  const text = await readFile(join(place.folder, out), 'utf8')
  assert.match(text, /"response_content":\{"km":12345678901234567890\}/)
  const rows = rowsOf(text)
  assert.deepEqual(
    rows.map(({ line, custom_id, status }) => [line, custom_id, status]),
    [
      [1, 'first', 'completed'],
      [3, undefined, 'completed'],
      [4, undefined, 'completed'],
    ],
  )
  assert.equal(rows[2]?.result?.response_content, 'echo: three')
  assert.deepEqual(
    readdirSync(place.folder).filter((name) => /journal|lock|part/.test(name) && !/parley\.db/.test(name)),
    [],
  )

  const again = await ask(['batch', 'jobs.jsonl', '--model', 'gpt-5-mini'])
  assert.equal(again.code, 1)
  assert.match(again.stderr, /results\.jsonl already exists.*--restart/)
  assert.equal(models.requests.length, 3, 'nothing is paid for again by mistake')
})

test('from standard input to standard output, and what fails ends with 2', { timeout }, async (t) => {
  const { ask, write } = await startAsking(t)
  const stdin = `${jobLine('Hello')}\n${jobLine('[[fail model_error]]')}\n`
  const ended = await ask(['batch', '-', '--out', 'out.jsonl'], { stdin })
  assert.equal(ended.code, 2, ended.stderr)
  assert.match(ended.stderr, /^2 lines: 1 completed, 1 failed\. Results: out\.jsonl\n$/)
  await write('two.jsonl', stdin)
  const printed = await ask(['batch', 'two.jsonl', '--out', '-'])
  const rows = rowsOf(printed.stdout)
  assert.deepEqual(
    rows.map(({ line, status, error }) => [line, status, error?.code]),
    [
      [1, 'completed', undefined],
      [2, 'failed', 'model_error'],
    ],
  )
  const nameless = await ask(['batch', '-'], { stdin })
  assert.deepEqual([nameless.code, nameless.stdout], [1, ''])
  assert.match(nameless.stderr, /Pass --out FILE/)
})

test('a named pipe or a device gets the results, and is not replaced by a file', { timeout }, async (t) => {
  const { ask, write, place } = await startAsking(t)
  await write('jobs.jsonl', jobLine('Hello'))
  const pipe = join(place.folder, 'pipe')
  if (spawnSync('mkfifo', [pipe]).status !== 0) return t.skip('this system has no mkfifo')
  const reader = place.spawn(['cat', pipe])
  const ended = await ask(['batch', 'jobs.jsonl', '--out', 'pipe'])
  assert.equal(ended.code, 0, ended.stderr)
  assert.ok(statSync(pipe).isFIFO())
  await reader.exited
  assert.match(reader.stdout, /^{"line":1,.*\n$/)
})

test('invalid lines are reported before anything is sent, and can be skipped', { timeout }, async (t) => {
  const models = await startModelServer({}, t)
  const settings = { tiers: { user_max: { max_input_tokens: 50 } } }
  const { ask, write, place } = await startAsking(t, { upstream: models.baseUrl, settings })
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
  const valid = jobLine('the only valid one')
  await write('jobs.jsonl', [valid, ...wrong.map(([line]) => line)].join('\n'))
  const refused = await ask(['batch', 'jobs.jsonl'])
  assert.deepEqual([refused.code, refused.stdout], [1, ''])
  const messages = refused.stderr.split('\n')
  for (const [place, [line, says]] of wrong.entries()) {
    assert.match(messages[place] ?? '', new RegExp(`^jobs\\.jsonl:${place + 2}: `), line)
    assert.match(messages[place] ?? '', says, line)
  }
  assert.match(refused.stderr, /13 of 14 lines are invalid, so nothing was sent\. .*--skip-invalid/)
  assert.equal(models.requests.length, 0)
  assert.ok(!existsSync(join(place.folder, 'jobs.jsonl.results.jsonl.journal')))

  const skipped = await ask(['batch', 'jobs.jsonl', '--skip-invalid'])
  assert.equal(skipped.code, 2)
  assert.match(skipped.stderr, /14 lines: 1 completed, 13 invalid\./)
  const rows = rowsOf(await readFile(join(place.folder, 'jobs.jsonl.results.jsonl'), 'utf8'))
  assert.deepEqual(
    rows.map(({ line }) => line),
    Array.from({ length: 14 }, (_, index) => index + 1),
  )
  assert.equal(rows[0]?.result?.response_content, 'echo: the only valid one')
  assert.deepEqual(
    rows.slice(1).map(({ status }) => status),
    Array(13).fill('invalid'),
  )
})

test('a job that only the server can reject is reported by its line, and the run continues without it', {
  timeout,
}, async (t) => {
  const models = await startModelServer({}, t)
  const { ask, write, place } = await startAsking(t, { upstream: models.baseUrl })
  const inside = jobLine('x', { callback: { callback_url: 'http://127.0.0.1:9/hook' } })
  await write(
    'jobs.jsonl',
    [...Array.from({ length: 40 }, (_, index) => jobLine(`job ${index}`)), inside, jobLine('last')].join(
      '\n',
    ),
  )
  const stopped = await ask(['batch', 'jobs.jsonl'])
  assert.equal(stopped.code, 1)
  assert.match(
    stopped.stderr,
    /The server rejected line 41: callback\.callback_url: .*--skip-invalid to leave it out/,
  )
  assert.match(stopped.stderr, /Run the same command again/)
  const ended = await ask(['batch', 'jobs.jsonl', '--skip-invalid'])
  assert.equal(ended.code, 2)
  assert.match(ended.stderr, /42 lines: 41 completed, 1 invalid/)
  assert.equal(models.requests.length, 41)
  const rows = rowsOf(await readFile(join(place.folder, 'jobs.jsonl.results.jsonl'), 'utf8'))
  assert.match(rows[40]?.error?.message ?? '', /is not a public address/)
})

test('numbers in payloads and schemas are sent as they were written', { timeout }, async (t) => {
  const receiver = await startReceiver({}, t)
  const settings = { callbacks: { allow_networks: ['127.0.0.0/8'] } }
  const { ask } = await startAsking(t, { settings })
  const callback = { callback_url: `${receiver.url}/hook`, callback_payload: { order: 0 } }
  const stdin = jobLine('Hello', { callback }).replace('"order":0', '"order":12345678901234567890')
  const ended = await ask(['batch', '-', '--out', 'out.jsonl'], { stdin })
  assert.equal(ended.code, 0, ended.stderr)
  const [post] = await receiver.received(1)
  assert.match(String(post?.body), /"order":12345678901234567890/)
})

test('reads are spread so that the limit is not met, and a limit met anyway is waited out', {
  timeout,
}, async (t) => {
  const models = await startModelServer({}, t)
  const { ask, server } = await startAsking(t, { upstream: models.baseUrl })
  const stdin = Array.from({ length: 90 }, (_, index) => jobLine(`job ${index}`)).join('\n')
  const run = async (name: string, refuseFirst: number) => {
    const gate = await startReadGate(t, server.url, { reads: 3, windowS: 2, refuseFirst })
    const ended = await ask(['batch', '-', '--out', name], { stdin, env: { PARLEY_URL: gate.url } })
    assert.equal(ended.code, 0, ended.stderr)
    return gate
  }
  const [quiet, met] = await Promise.all([run('quiet.jsonl', 0), run('met.jsonl', 2)])
  assert.ok(quiet.reads() >= 2 && quiet.reads() < 30, String(quiet.reads()))
  assert.equal(quiet.refused(), 0)
  assert.equal(met.refused(), 2)
  assert.equal(met.earlyAfterRefusal(), 0, 'it stays away for as long as it is told to')
})

test('user errors and rejected requests have their own exit codes', { timeout }, async (t) => {
  const { run, write, place } = await startAsking(t)
  await write('jobs.jsonl', jobLine('Hello'))
  await write('empty.jsonl', '\n\n')
  await write('damaged.jsonl', jobLine('Hello'))
  await write('damaged.jsonl.results.jsonl.journal', 'not of ours\n')
  const cases: readonly { args: string; code: number; says: RegExp }[] = [
    { args: 'batch none.jsonl', code: 1, says: /none\.jsonl does not exist/ },
    { args: 'batch empty.jsonl', code: 1, says: /empty\.jsonl contains no jobs/ },
    {
      args: 'batch jobs.jsonl --out no/such/folder.jsonl',
      code: 1,
      says: /Check that the folder of --out exists/,
    },
    { args: 'batch jobs.jsonl --out a --key prl_wrong', code: 3, says: /API key/ },
    { args: 'batch jobs.jsonl --out b --url http://127.0.0.1:9', code: 4, says: /No response from/ },
    { args: 'batch jobs.jsonl --out - --json', code: 1, says: /choose one/ },
    { args: 'batch jobs.jsonl --model =x', code: 1, says: /FROM=TO/ },
    { args: 'batch jobs.jsonl --concurrency 0', code: 1, says: /from 1 to 100000/ },
    { args: 'batch damaged.jsonl', code: 1, says: /not a journal of this version.*--restart/ },
  ]
  await Promise.all(
    cases.map(async ({ args, code, says }) => {
      const ended = await run(args.split(' '))
      assert.deepEqual([ended.code, ended.stdout], [code, ''], `${args}: ${ended.stderr}`)
      assert.match(ended.stderr, says, args)
      assert.doesNotMatch(ended.stderr, /^\s+at .+:\d+/m, args)
    }),
  )
  assert.deepEqual(
    readdirSync(place.folder).filter((name) => name.endsWith('.lock') && !name.startsWith('parley.db')),
    [],
  )
})
