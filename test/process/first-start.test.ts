/** Tests what happens between `npm start` and the first response, and what happens only at the first start. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readFile, realpath, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import test from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import type { Body } from './caller.ts'
import { gauge } from './gauge.ts'
import { CLONE, installation, MAIN } from './server-process.ts'

const timeout = 60_000
const NO_JOB = '01890a5d-ac96-774b-bcce-b302099a8057'
const hasCurl = spawnSync('curl', ['--version']).status === 0

test('the first start creates an account and prints its key; the second prints none', {
  timeout,
}, async (t) => {
  const place = await installation(t)
  const first = await place.start()
  const key = await first.firstKey()
  await first.program.line(/^curl .+\n/m)
  assert.match(first.program.stdout, /listening on http:\/\/127\.0\.0\.1:\d+\n/)
  assert.match(first.program.stdout, /simulator/, 'it says that no model is configured')
  assert.equal((await first.caller(key).single('Hello')).status, 200)
  assert.deepEqual(await first.stop(), { code: 0, signal: null })
  assert.ok(!first.program.stderr.includes(key), 'the key is not in the log')

  const listed = await place.parley(['keys', 'list', '--json'])
  const [only, ...others] = JSON.parse(listed.stdout) as { account: string; tier: string }[]
  assert.deepEqual([only?.account, only?.tier, others], ['default', 'user_max', []])

  const second = await place.start()
  assert.equal((await second.caller(key).single('Hello again')).status, 200)
  await second.stop()
  assert.ok(!second.program.stdout.includes('prl_'), second.program.stdout)
  assert.ok(!second.program.stdout.includes('curl'))
})

test('the first start creates an admin token that only its owner can read, and the second start uses it again', {
  timeout,
}, async (t) => {
  const place = await installation(t)
  const first = await place.start()
  const [, file = ''] = await first.program.line(/^The admin token is in (.+)$/m)
  assert.equal(file, `${place.database}.admin-token`)
  const token = (await readFile(file, 'utf8')).trim()
  if (process.platform !== 'win32') assert.equal((await stat(file)).mode & 0o777, 0o600)
  const look = async (url: string, given: string) =>
    (await fetch(`${url}/admin/api/overview`, { headers: { authorization: `Bearer ${given}` } })).status
  assert.deepEqual([await look(first.url, token), await look(first.url, `${token}x`)], [200, 401])
  await first.stop()
  const second = await place.start()
  assert.equal(await look(second.url, token), 200)
  await second.stop()
  const third = await place.start({ env: { PARLEY_ADMIN_TOKEN: 'of-my-own' } })
  assert.deepEqual([await look(third.url, token), await look(third.url, 'of-my-own')], [401, 200])
  await third.stop()
  for (const { program } of [first, second, third]) {
    for (const secret of [token, 'of-my-own']) assert.ok(!(program.stdout + program.stderr).includes(secret))
  }
  assert.ok(!third.program.stdout.includes('admin token'), 'it says nothing of a file that it does not use')
})

test('the lock of the database is for its owner only, also one of an earlier version', {
  timeout,
  skip: process.platform === 'win32',
}, async (t) => {
  const place = await installation(t)
  const lock = `${place.database}.lock`
  const modeAfterStart = async () => {
    const server = await place.start()
    const { mode } = await stat(lock)
    await server.stop()
    return mode & 0o777
  }
  assert.equal(await modeAfterStart(), 0o600)
  await chmod(lock, 0o644)
  assert.equal(await modeAfterStart(), 0o600)
})

test('a start that creates a folder other than the default logs its full path, once', {
  timeout,
}, async (t) => {
  const place = await installation(t)
  const pattern = /"level":40,.*created the folder of the database/g
  const logged = async (url: string) => {
    const server = await place.start({ env: { DATABASE_URL: url } })
    await server.stop()
    return server.program.stderr.split('\n').filter((line) => line.match(pattern))
  }
  const [line = '', ...others] = await logged('sqlite:typo/inside/parley.db')
  assert.deepEqual(others, [])
  assert.equal(JSON.parse(line).folder, join(await realpath(place.folder), 'typo/inside'))
  assert.deepEqual(await logged('sqlite:typo/inside/parley.db'), [])
  assert.deepEqual(await logged('sqlite:./data/parley.db'), [])
})

test('at LOG_LEVEL silent it still says where it listens and what the key is, and logs nothing', {
  timeout,
}, async (t) => {
  const place = await installation(t)
  const server = await place.start({ env: { LOG_LEVEL: 'silent' } })
  const key = await server.firstKey()
  assert.equal((await server.caller(key).single('Hello')).status, 200)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  assert.equal(server.program.stderr, '')
})

test('with a model configured there is no word of the simulator', { timeout }, async (t) => {
  const models = await startModelServer({}, t)
  const place = await installation(t, { upstream: models.baseUrl })
  const server = await place.start()
  const caller = server.caller(await server.firstKey())
  const answer = await caller.single('Hello')
  assert.equal(answer.body.data?.result?.response_content, 'echo: Hello')
  const [, at] = await server.program.line(/^Model server openai at (\S+), models gpt-5, .*: it answers$/m)
  assert.equal(at, models.baseUrl)
  await server.stop()
  assert.ok(!/simulator/i.test(server.program.stdout))
})

test('a model server that is down is a warning at the start, and stops nothing', { timeout }, async (t) => {
  const place = await installation(t, { upstream: 'http://127.0.0.1:1/v1' })
  const server = await place.start({ env: { OPENAI_MODEL: 'tiny' } })
  const [line] = await server.program.line(/^Model server .+$/m)
  assert.match(
    line,
    /^Model server openai at http:\/\/127\.0\.0\.1:1\/v1, model tiny: it cannot be reached: nothing listens/,
  )
  assert.match(line, /; run `parley check`$/)
  await server.program.logged(/"level":40,.*"upstream":"openai".*a model server does not respond as expected/)
  assert.equal((await server.caller(await server.firstKey()).read(NO_JOB)).status, 404, 'it serves')
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
})

test('a server whose standard output is closed continues when it prints about its model servers', {
  timeout,
}, async (t) => {
  const asked = Promise.withResolvers<() => void>()
  const models = createServer((_request, response) => {
    asked.resolve(() => response.writeHead(503).end())
  })
  models.listen(0, '127.0.0.1')
  await once(models, 'listening')
  t.after(() => models.close())
  const upstream = `http://127.0.0.1:${(models.address() as AddressInfo).port}/v1`
  const place = await installation(t, { upstream })
  const server = await place.startAs([
    'sh',
    '-c',
    `"${process.execPath}" "${MAIN}" serve | head -n 1; sleep 60`,
  ])
  const answer = await asked.promise
  answer()
  await server.program.logged(/a model server does not respond as expected/)
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200)
  assert.ok(!server.program.stderr.includes('uncaught'), server.program.stderr)
})

test('the example of the first start names an existing model', { timeout }, async (t) => {
  const models = await startModelServer({}, t)
  const own = { base_url: models.baseUrl, api_key_env: null }
  const small = { targets: [{ upstream: 'own', model: 'a-model' }] }
  const place = await installation(t, { settings: { upstreams: { own }, models: { small } } })
  const server = await place.start()
  const [line] = await server.program.line(/^curl .+$/m)
  assert.match(line, /"model":"small"/)
  assert.equal((await sentByHand(line)).data?.status, 'completed')
})

test('the printed curl line works as pasted', { timeout }, async (t) => {
  const place = await installation(t)
  const server = await place.start()
  const [line = ''] = await server.program.line(/^curl .+$/m)
  const body = hasCurl ? await pastedIntoShell(line) : await sentByHand(line)
  assert.equal(body.data?.status, 'completed')
  assert.match(String(body.data?.result?.response_content), /Hello, Parley!/)

  async function pastedIntoShell(command: string): Promise<Body> {
    const shell = place.spawn(['sh', '-c', command], { cwd: '/' })
    assert.deepEqual(await shell.exited, { code: 0, signal: null }, shell.stderr)
    return JSON.parse(shell.stdout) as Body
  }
})

/** If there is no curl, sends what the printed command would send. */
async function sentByHand(line: string): Promise<Body> {
  const url = /http:\S+/.exec(line)?.[0] ?? ''
  const body = / -d '(.+)'$/.exec(line)?.[1] ?? ''
  const headers = [...line.matchAll(/-H '([^:']+): ([^']+)'/g)].map(
    ([, name = '', value = '']) => [name, value] as [string, string],
  )
  const response = await fetch(url, { method: 'POST', headers, body })
  return (await response.json()) as Body
}

test('a first start that cannot listen keeps the key for the start that can', { timeout }, async (t) => {
  const holder = await (await installation(t)).start()
  const place = await installation(t)
  const refused = await place.parley(['serve'], { env: { PORT: new URL(holder.url).port } })
  assert.equal(refused.code, 1)
  assert.ok(!refused.stdout.includes('prl_'))
  const server = await place.start()
  assert.equal((await server.caller(await server.firstKey()).single('Hello')).status, 200)
})

test('npm start serves; SIGTERM to npm, even twice, drains the server and frees the port', {
  timeout,
}, async (t) => {
  const models = await startModelServer({}, t)
  models.script = () => reply.stall()
  const place = await installation(t, { upstream: models.baseUrl })
  const npm = await place.startAs(['npm', 'start'], {
    cwd: CLONE,
    env: { PARLEY_CONFIG: `${place.folder}/parley.config.json` },
  })
  const caller = npm.caller(await npm.firstKey())
  const waiting = caller.single('Hello')
  await models.received(1)

  npm.kill('SIGTERM')
  const answer = await waiting
  assert.deepEqual([answer.status, answer.body.data?.status], [202, 'timeout'])
  // If npm is still running, its exit must not interrupt the drain.
  npm.kill('SIGTERM')
  models.release()

  // When the output of npm is closed, all processes that it started have ended.
  await npm.exited
  const port = new URL(npm.url).port
  const next = await place.start({ env: { PORT: port } })
  assert.equal(new URL(next.url).port, port)
  const read = await next.caller(await npm.firstKey()).read(answer.body.data?.job_id ?? '')
  assert.equal(read.body.data?.status, 'completed', 'the job ended during the drain')
})

test('a server that npm started drains when its parent is gone', { timeout }, async (t) => {
  const place = await installation(t)
  const node = `"${process.execPath}" "${MAIN}"`
  // The shell stays between npm and the server, because not all shells replace themselves with their last command.
  const server = await place.startAs(['sh', '-c', `${node} serve; exit $?`], {
    env: { npm_lifecycle_event: 'start' },
  })
  const caller = server.caller(await server.firstKey())
  const waiting = caller.single('[[delay 2s]] Hello')
  await gauge(server.url, 'parley_waiters', 1)
  server.kill('SIGKILL')
  const answer = await waiting
  assert.deepEqual([answer.status, answer.body.data?.status], [202, 'timeout'])
  await server.exited
  assert.match(server.program.stderr, /npm, which started this process, has exited/)

  const next = await place.start()
  const read = await next.caller(await server.firstKey()).read(answer.body.data?.job_id ?? '')
  assert.equal(read.body.data?.status, 'completed', 'the job ended during the drain')
})

test('signals that arrive again do not cut the drain short', { timeout }, async (t) => {
  const models = await startModelServer({}, t)
  models.script = () => reply.stall()
  const place = await installation(t, { upstream: models.baseUrl })
  const server = await place.start()
  const caller = server.caller(await server.firstKey())
  const waiting = caller.single('Hello')
  await models.received(1)
  server.kill('SIGTERM')
  const answer = await waiting
  server.kill('SIGTERM')
  server.kill('SIGINT')
  models.release()
  assert.deepEqual(await server.exited, { code: 0, signal: null })

  const next = await place.start()
  const read = await next.caller(await server.firstKey()).read(answer.body.data?.job_id ?? '')
  assert.equal(read.body.data?.status, 'completed')
})
