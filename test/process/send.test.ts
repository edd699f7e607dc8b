/** Tests `parley send`, `job` and `jobs list`: what they send, what they print, and their exit codes. */
import assert from 'node:assert/strict'
import test, { after, type TestContext } from 'node:test'
import { reply, type Script, startModelServer } from '../model-server.ts'
import { startAsking } from './asking.ts'
import { serveHttp } from './http-server.ts'
import { assertEnded, reportEach, reported } from './mistakes.ts'

const NO_JOB = '01890a5d-ac96-774b-bcce-b302099a8057'
const RIVER = {
  type: 'object',
  properties: { river: { type: 'string' } },
  required: ['river'],
  additionalProperties: false,
}

/** The tests share a server and its model server. Only one request may wait for its answer. Others get a 202 at once. */
const models = await startModelServer()
after(() => models.close())
const settings = { sync: { max_waiters: 1 } }
const asking = await startAsking({ after }, { upstream: models.baseUrl, settings })
const { ask, begin, write, place, server, key } = asking

function answers(t: TestContext, script: Script): void {
  models.script = script
  t.after(() => {
    models.script = () => undefined
  })
}

const calledMore = (count: number) => models.received(models.requests.length + count)

test('the text comes from arguments, a file or standard input, and the answer goes to standard output', async () => {
  await write('question.txt', 'Which\nriver? ')
  const words = await ask(['send', '--model', 'gpt-5-mini', '--system', 'Be brief.', 'Hello', 'there'])
  assert.deepEqual([words.code, words.stdout, words.stderr], [0, 'echo: Hello there\n', ''])
  assert.equal(models.requests[0]?.body.model, 'gpt-5-mini')
  assert.deepEqual(models.requests[0]?.body.messages, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hello there' },
  ])
  for (const [args, stdin, answer] of [
    ['--file question.txt', '', 'Which\nriver? '],
    ['', 'größer 😀\n', 'größer 😀'],
    ['--file -', 'piped', 'piped'],
    ['-', 'piped, too', 'piped, too'],
  ] as const) {
    const { stdout } = await ask(`send ${args}`.trim().split(' '), { stdin })
    assert.equal(stdout, `echo: ${answer}\n`)
  }

  const json = await ask(['send', '--json', 'Hello'])
  const { job_id, created_at, ...rest } = JSON.parse(json.stdout) as Record<string, unknown>
  assert.deepEqual(rest, { status: 'completed', result: { response_content: 'echo: Hello' }, error: null })
  assert.ok(typeof job_id === 'string' && typeof created_at === 'number')
  assert.equal(json.stdout.trimEnd().split('\n').length, 1)
})

test('--metadata may be repeated, and splits at the first =', async () => {
  const sent = await ask(['send', '--metadata', 'customer=a=b', '--metadata', 'note=', '--json', 'Noted'])
  const { job_id } = JSON.parse(sent.stdout) as { job_id: string }
  const { text } = await server.caller(key).send(`/api/v1/messages/${job_id}?include=metadata`)
  assert.deepEqual(JSON.parse(text).data.metadata, { customer: 'a=b', note: '' })
  const wrong = await ask(['send', '--metadata', 'customer', 'Noted'])
  assert.deepEqual([wrong.code !== 0, wrong.stdout], [true, ''])
  assert.match(wrong.stderr, /It is KEY=VALUE/)
})

test('--schema and --json-format print JSON with every digit', async (t) => {
  answers(t, () => reply.text('{ "river": "Amur", "length": 12345678901234567890 }'))
  const before = models.requests.length
  const open = { ...RIVER, additionalProperties: true }
  await write('open.json', JSON.stringify(open))
  await write('noted.json', JSON.stringify({ ...open, 'x-order': 1 }))
  await write('river.json', JSON.stringify({ ...RIVER, require: ['river'] }))
  const printed = '{"river":"Amur","length":12345678901234567890}\n'
  assert.equal((await ask(['send', '--schema', 'open.json', 'A river?'])).stdout, printed)
  assert.equal((await ask(['send', '--json-format', 'Any river?'])).stdout, printed)
  const noted = await ask(['send', '--schema', 'noted.json', 'A river again?'])
  const unchecked = 'noted.json: accepted and not checked: /x-order\n'
  assert.deepEqual([noted.stdout, noted.stderr], [printed, unchecked])
  const bad = await ask(['send', '--schema', 'river.json', 'A river?'])
  reported(bad, /^river\.json: schema\.require: is not a keyword; did you mean required\?/)
  assert.equal(models.requests.length - before, 3)
})

test('a job that fails ends with 2, and says why', async (t) => {
  answers(t, () => reply.contentFilter())
  const failed = await ask(['send', 'Filter this'])
  reported(failed, /^Job \S+ failed: content_policy_violation: \S/, 2)
  const json = await ask(['send', '--json', 'Filter this, too'])
  const { error } = JSON.parse(json.stdout)
  assert.deepEqual([json.code, error.code, json.stderr], [2, 'content_policy_violation', ''])
})

test('--no-wait prints the ID at once, and `parley job` shows the rest', async (t) => {
  answers(t, () => reply.stall())
  const called = calledMore(1)
  const sent = await ask(['send', '--no-wait', 'Hello, later'])
  assert.deepEqual([sent.code, sent.stderr], [0, ''])
  const id = sent.stdout.trim()
  await called
  const open = await ask(['job', id])
  reported(open, /is assigned/, 5)
  const waiting = begin(['job', id, '--wait'])
  models.release()
  assert.deepEqual(await waiting.exited, { code: 0, signal: null })
  assert.equal(waiting.stdout, 'echo: Hello, later\n')
})

test('an answer that takes longer than the wait is waited for, and Ctrl-C says how', async (t) => {
  answers(t, () => reply.stall())
  const [first, third] = [calledMore(1), calledMore(3)]
  const occupying = server.caller(key).single('the only one that may wait')
  await first
  const slow = begin(['send', 'Slowly'])
  const [, id = ''] = await slow.logged(/^Job (\S+) is still running/)
  slow.kill('SIGINT')
  assert.deepEqual(await slow.exited, { code: 130, signal: null })
  const says = `The job continues on the server\\. To wait for it: parley job ${id} --wait`
  assert.match(slow.stderr, new RegExp(says))
  const patient = begin(['send', 'Slowly again'])
  await patient.logged(/is still running/)
  await third
  models.release()
  assert.deepEqual(await patient.exited, { code: 0, signal: null })
  assert.equal(patient.stdout, 'echo: Slowly again\n')
  assert.equal((await ask(['job', id, '--wait'])).stdout, 'echo: Slowly\n')
  assert.equal((await occupying).status, 200)
})

test('user errors and rejected requests have their own exit codes', async (t) => {
  await write('no-text', 'a')
  const free = await place.key('fred', 'user_free')
  const other = await serveHttp(t, (_request, response) => response.end('<html>It works!</html>'))
  const cannotUse = /user_free cannot use model gpt-5/
  await reportEach(
    t,
    [
      { args: 'send Hi', env: { PARLEY_API_KEY: undefined }, code: 3, says: /PARLEY_API_KEY/ },
      { args: 'send Hi --key prl_wrong', code: 3, says: /API key/ },
      { args: 'send Hi --model gpt-5', env: { PARLEY_API_KEY: free }, code: 3, says: cannotUse },
      { args: 'send Hi --url http://127.0.0.1:9', code: 4, says: /No response from http:\/\/127\.0\.0\.1:9/ },
      { args: `send Hi --url ${other}`, code: 4, says: /is not from a Parley server/ },
      { args: 'send Hi --url localhost:8080', says: /--url .* must be an http or https URL/ },
      { args: 'send Hi --model gpt-9', says: /model: must be one of/ },
      { args: 'send Hi --timeout 5', says: /from 30 to 120/ },
      { args: 'send Hi --cache-ttl 5', says: /from 180 to 3600/ },
      { args: 'send Hi --no-wait --timeout 30', says: /--timeout cannot be used with --no-wait/ },
      { args: 'send Hi --file no-text', says: /is given twice/ },
      { args: 'send --file none.txt', says: /none\.txt does not exist/ },
      { args: 'send Hi --schema none.json', says: /none\.json does not exist/ },
      { args: 'send Hi --schema no-text', says: /no-text is not JSON/ },
      { args: 'send Hi --schema no-text --json-format', says: /cannot be used with/ },
      { args: `job ${NO_JOB}`, says: /does not exist or has expired/ },
      { args: `job ${NO_JOB} --timeout 5`, says: /^--timeout can only be used with --wait\.\n$/ },
      { args: `job ${NO_JOB} --drop-callback`, says: /can only be used with --delete/ },
      { args: `job ${NO_JOB} --cancel --wait`, says: /cannot be used with option '--wait'/ },
    ],
    ask,
  )
})

for (const [status, body] of [
  [200, '<html>Welcome</html>'],
  [404, '<html>Not Found</html>'],
  [404, '{"message":"Not Found"}'],
  [405, '{"detail":"Method Not Allowed"}'],
  [501, '<html>Unsupported method</html>'],
] as const) {
  test(`a server that is not Parley and answers ${status} ${body} gives exit code 4`, async (t) => {
    const url = await serveHttp(t, (_request, response) => response.writeHead(status).end(body))
    const { code, stderr } = await ask(['send', '--url', url, 'Hello'])
    assert.equal(code, 4, stderr)
  })
}

test('a job is shown, waited for, cancelled and deleted', async (t) => {
  answers(t, ({ body }) => (/wait/.test(JSON.stringify(body)) ? reply.stall() : undefined))
  const [one, two] = [calledMore(2), calledMore(3)]
  const caller = server.caller(key)
  const created = await caller.batch(['wait for me', 'a quick one'])
  const [slow = '', quick = ''] = created.body.data?.job_ids ?? []

  assertEnded(await ask(['job', quick, '--wait']), { code: 0, stdout: 'echo: a quick one\n', stderr: '' })
  const whole = JSON.parse((await ask(['job', quick, '--json'])).stdout) as Record<string, unknown>
  assert.deepEqual(Object.keys(whole), ['status', 'job_id', 'created_at', 'result', 'error'])

  const open = await ask(['job', slow, '--json'])
  assert.equal(open.code, 5)
  assert.match(JSON.parse(open.stdout).status, /pending|assigned/)
  const tooLong = await ask(['job', slow, '--wait', '--timeout', '1'])
  reported(tooLong, /did not finish within 1 s\. It continues/, 5)

  await one
  const stopped = begin(['job', slow, '--wait'])
  stopped.kill('SIGTERM')
  // The signal may come before the command has started to listen for it.
  const { code, signal } = await stopped.exited
  assert.ok(code === 143 || signal === 'SIGTERM', `${code} ${signal}`)
  models.release()
  assert.equal((await ask(['job', slow, '--wait'])).stdout, 'echo: wait for me\n')
  const logged = await ask(['job', slow], { env: { PARLEY_LOG: 'debug' } })
  assert.equal(logged.stdout, 'echo: wait for me\n')
  assert.match(logged.stderr, /^parley: GET \/api\/v1\/messages\/.*: 200 in \d+ ms\n$/)

  const late = await ask(['job', quick, '--cancel'])
  reported(late, /The job has already finished/)
  const [third = ''] = (await caller.batch(['wait again'])).body.data?.job_ids ?? []
  await two
  assert.equal((await ask(['job', third, '--delete'])).code, 1)
  const cancelled = await ask(['job', third, '--cancel'])
  reported(cancelled, /is cancelled/, 0)
  assert.equal(JSON.parse((await ask(['job', third, '--cancel', '--json'])).stdout).error.code, 'cancelled')
  assert.equal((await ask(['job', third])).code, 2)
  const deleted = await ask(['job', third, '--delete', '--json'])
  assert.deepEqual(JSON.parse(deleted.stdout), { job_id: third, deleted: true })
  assert.equal((await ask(['job', third, '--delete'])).code, 1)
})

test('jobs are listed by status and metadata, newest first', async () => {
  const env = { PARLEY_API_KEY: await place.key('lister') }
  const run = async (...args: string[]) => (await ask(args, { env })).stdout
  const listed = async (...args: string[]) => {
    const jobs: { job_id: string }[] = JSON.parse(await run('jobs', 'list', '--json', ...args))
    return jobs.map(({ job_id }) => job_id)
  }
  const sent = async (...args: string[]) => JSON.parse(await run('send', '--json', ...args)).job_id
  const [first, second] = [await sent('first'), await sent('--metadata', 'customer=acme', 'second')]
  assert.deepEqual(await listed(), [second, first])
  assert.deepEqual(await listed('--limit', '1'), [second])
  assert.deepEqual(await listed('--status', 'failed'), [])
  assert.deepEqual(await listed('--metadata', 'customer=acme'), [second])
  assert.deepEqual(await listed('--metadata', 'customer=acme', '--metadata', 'team=a'), [])
  assert.match(await run('jobs', 'list', '--metadata', 'a=b'), /^No job has this metadata/)
  const table = new RegExp(`^JOB ID .*\\n${second}  completed  gpt-\\S+ .*\\n${first}  completed `)
  assert.match(await run('jobs', 'list'), table)
})
