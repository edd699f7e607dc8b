/** Tests `parley send`: what it sends, what it prints, and its exit codes. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import test, { after, type TestContext } from 'node:test'
import { reply, type Script, startModelServer } from '../model-server.ts'
import { startAsking } from './asking.ts'

const timeout = 60_000

const models = await startModelServer()
after(() => models.close())
/** A server with a model server, and a server with the simulator. Several tests share each of them. */
const shared = await startAsking({ after }, { upstream: models.baseUrl })
const simulated = await startAsking({ after })
const RIVER = {
  type: 'object',
  properties: { river: { type: 'string' } },
  required: ['river'],
  additionalProperties: false,
}

/** Sets the script of the model server until the test ends. */
function answers(t: TestContext, script: Script): void {
  models.script = script
  t.after(() => {
    models.script = () => undefined
  })
}

test('the text comes from arguments, a file or standard input, and the answer goes to standard output', {
  timeout,
}, async () => {
  const { ask, write } = shared
  await write('question.txt', 'Which\nriver? ')

  const words = await ask(['send', '--model', 'gpt-5-mini', '--system', 'Be brief.', 'Hello', 'there'])
  assert.deepEqual([words.code, words.stdout, words.stderr], [0, 'echo: Hello there\n', ''])
  assert.equal(models.requests[0]?.body.model, 'gpt-5-mini')
  assert.deepEqual(models.requests[0]?.body.messages, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hello there' },
  ])
  assert.equal((await ask(['send', '--file', 'question.txt'])).stdout, 'echo: Which\nriver? \n')
  assert.equal((await ask(['send'], { stdin: 'größer 😀\n' })).stdout, 'echo: größer 😀\n')
  assert.equal((await ask(['send', '--file', '-'], { stdin: 'piped' })).stdout, 'echo: piped\n')
  assert.equal((await ask(['send', '-'], { stdin: 'piped, too' })).stdout, 'echo: piped, too\n')

  const json = await ask(['send', '--json', 'Hello'])
  const { job_id, created_at, ...rest } = JSON.parse(json.stdout) as Record<string, unknown>
  assert.deepEqual(rest, { status: 'completed', result: { response_content: 'echo: Hello' }, error: null })
  assert.ok(typeof job_id === 'string' && typeof created_at === 'number')
  assert.equal(json.stdout.trimEnd().split('\n').length, 1)
})

test('--metadata may be repeated, and splits at the first =', { timeout }, async () => {
  const { ask, server, key } = shared
  const sent = await ask(['send', '--metadata', 'customer=a=b', '--metadata', 'note=', '--json', 'Noted'])
  const { job_id } = JSON.parse(sent.stdout) as { job_id: string }
  const read = await fetch(`${server.url}/api/v1/messages/${job_id}?include=metadata`, {
    headers: { 'x-api-key': key },
  })
  const { data } = (await read.json()) as { data: { metadata: unknown } }
  assert.deepEqual(data.metadata, { customer: 'a=b', note: '' })
  const wrong = await ask(['send', '--metadata', 'customer', 'Noted'])
  assert.deepEqual([wrong.code !== 0, wrong.stdout], [true, ''])
  assert.match(wrong.stderr, /It is KEY=VALUE/)
})

test('--schema and --json-format print JSON with every digit', { timeout }, async (t) => {
  answers(t, () => reply.text('{ "river": "Amur", "length": 12345678901234567890 }'))
  const before = models.requests.length
  const { ask, write } = shared
  await write('open.json', JSON.stringify({ ...RIVER, additionalProperties: true }))
  await write('river.json', JSON.stringify({ ...RIVER, require: ['river'] }))
  const printed = '{"river":"Amur","length":12345678901234567890}\n'
  assert.equal((await ask(['send', '--schema', 'open.json', 'A river?'])).stdout, printed)
  assert.equal((await ask(['send', '--json-format', 'Any river?'])).stdout, printed)
  await write('noted.json', JSON.stringify({ ...RIVER, additionalProperties: true, 'x-order': 1 }))
  const noted = await ask(['send', '--schema', 'noted.json', 'A river again?'])
  assert.deepEqual(
    [noted.stdout, noted.stderr],
    [printed, 'noted.json: accepted and not checked: /x-order\n'],
  )
  const bad = await ask(['send', '--schema', 'river.json', 'A river?'])
  assert.deepEqual([bad.code, bad.stdout], [1, ''])
  assert.match(bad.stderr, /^river\.json: schema\.require: is not a keyword; did you mean required\?/)
  assert.equal(models.requests.length - before, 3)
})

test('a job that fails ends with 2, and says why', { timeout }, async () => {
  const { ask } = simulated
  const failed = await ask(['send', '[[fail content_policy_violation]]'])
  assert.deepEqual([failed.code, failed.stdout], [2, ''])
  assert.match(failed.stderr, /^Job \S+ failed: content_policy_violation: \S/)
  const json = await ask(['send', '--json', '[[fail model_error]]'])
  assert.deepEqual([json.code, JSON.parse(json.stdout).error.code, json.stderr], [2, 'model_error', ''])
})

test('--no-wait prints the ID at once, and `parley job` shows the rest', { timeout }, async (t) => {
  answers(t, () => reply.stall())
  const before = models.requests.length
  const { ask, begin } = shared
  const sent = await ask(['send', '--no-wait', 'Hello, later'])
  assert.deepEqual([sent.code, sent.stderr], [0, ''])
  const id = sent.stdout.trim()
  await models.received(before + 1)
  const open = await ask(['job', id])
  assert.deepEqual([open.code, open.stdout], [5, ''])
  assert.match(open.stderr, /is assigned/)
  const waiting = begin(['job', id, '--wait'])
  models.release()
  assert.deepEqual(await waiting.exited, { code: 0, signal: null })
  assert.equal(waiting.stdout, 'echo: Hello, later\n')
})

test('an answer that takes longer than the wait is waited for, and Ctrl-C says how', {
  timeout,
}, async (t) => {
  const models = await startModelServer({ script: () => reply.stall() }, t)
  // A server without a free slot for waiting responds with 202 at once.
  const settings = { sync: { max_waiters: 1 } }
  const { ask, begin, server, key } = await startAsking(t, { upstream: models.baseUrl, settings })
  const occupying = server.caller(key).single('the only one that may wait')
  await models.received(1)
  const slow = begin(['send', 'Hello'])
  const [, id = ''] = await slow.logged(/^Job (\S+) is still running/)
  slow.kill('SIGINT')
  assert.deepEqual(await slow.exited, { code: 130, signal: null })
  assert.match(
    slow.stderr,
    new RegExp(`The job continues on the server\\. To wait for it: parley job ${id} --wait`),
  )
  const patient = begin(['send', 'Hello again'])
  await patient.logged(/is still running/)
  await models.received(3)
  models.release()
  assert.deepEqual(await patient.exited, { code: 0, signal: null })
  assert.equal(patient.stdout, 'echo: Hello again\n')
  assert.equal((await ask(['job', id])).stdout, 'echo: Hello\n')
  assert.equal((await occupying).status, 200)
})

test('user errors and rejected requests have their own exit codes', { timeout }, async (t) => {
  const { run, place, write } = simulated
  await write('no-text', Buffer.from([0x61]).toString())
  const free = await place.parley(['keys', 'create', '--account', 'fred', '--tier', 'user_free'])
  const notParley = createServer((_request, response) => response.end('<html>It works!</html>'))
  await new Promise<void>((resolve) => notParley.listen(0, '127.0.0.1', resolve))
  t.after(() => notParley.close())
  const other = `http://127.0.0.1:${(notParley.address() as AddressInfo).port}`
  const cases: readonly {
    args: string
    env?: Record<string, string | undefined>
    code: number
    says: RegExp
  }[] = [
    { args: 'send Hi', env: { PARLEY_API_KEY: undefined }, code: 3, says: /PARLEY_API_KEY/ },
    { args: 'send Hi --key prl_wrong', code: 3, says: /API key/ },
    {
      args: `send Hi --model gpt-5 --key ${free.stdout.trim()}`,
      code: 3,
      says: /user_free cannot use model gpt-5/,
    },
    { args: 'send Hi --url http://127.0.0.1:9', code: 4, says: /No response from http:\/\/127\.0\.0\.1:9/ },
    { args: `send Hi --url ${other}`, code: 4, says: /is not from a Parley server/ },
    { args: 'send Hi --url localhost:8080', code: 1, says: /--url .* must be an http or https URL/ },
    { args: 'send Hi --model gpt-9', code: 1, says: /model: must be one of/ },
    { args: 'send Hi --timeout 5', code: 1, says: /from 30 to 120/ },
    { args: 'send Hi --cache-ttl 5', code: 1, says: /from 180 to 3600/ },
    { args: 'send Hi --no-wait --timeout 30', code: 1, says: /--timeout cannot be used with --no-wait/ },
    { args: 'send Hi --file no-text', code: 1, says: /is given twice/ },
    { args: 'send --file none.txt', code: 1, says: /none\.txt does not exist/ },
    { args: 'send Hi --schema none.json', code: 1, says: /none\.json does not exist/ },
    { args: 'send Hi --schema no-text', code: 1, says: /no-text is not JSON/ },
    { args: 'send Hi --schema no-text --json-format', code: 1, says: /cannot be used with/ },
  ]
  await Promise.all(
    cases.map(async ({ args, env, code, says }) => {
      const ended = await run(args.split(' '), { ...(env && { env }) })
      assert.deepEqual([ended.code, ended.stdout], [code, ''], `${args}: ${ended.stderr}`)
      assert.match(ended.stderr, says, args)
      assert.doesNotMatch(ended.stderr, /^\s+at .+:\d+/m, args)
    }),
  )
})

for (const [status, body] of [
  [200, '<html>Welcome</html>'],
  [404, '<html>Not Found</html>'],
  [404, '{"message":"Not Found"}'],
  [405, '{"detail":"Method Not Allowed"}'],
  [501, '<html>Unsupported method</html>'],
] as const) {
  test(`a server that is not Parley and answers ${status} ${body} gives exit code 4`, {
    timeout,
  }, async (t) => {
    const other = createServer((_request, response) => response.writeHead(status).end(body))
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    t.after(() => other.close())
    const { ask } = await startAsking(t)
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
    const { code, stderr } = await ask(['send', '--url', url, 'Hello'])
    assert.equal(code, 4, stderr)
  })
}
