/**
 * Tests what happens between `npm start` and the first response, what happens only at the first start, and that there is one
 * server per database file and per port.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmod, readFile, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import type { Body } from './caller.ts'
import { gauge } from './gauge.ts'
import { serveHttp } from './http-server.ts'
import { reported } from './mistakes.ts'
import { jobsByStatus } from './rows.ts'
import { CLONE, type Installation, installation, MAIN, type Server } from './server-process.ts'

const NO_JOB = '01890a5d-ac96-774b-bcce-b302099a8057'
const hasCurl = spawnSync('curl', ['--version']).status === 0
const EXITED = { code: 0, signal: null }

const overview = async ({ url }: Server, token: string) =>
  (await fetch(`${url}/admin/api/overview`, { headers: { authorization: `Bearer ${token}` } })).status

async function sentByHand(line: string): Promise<Body> {
  const url = /http:\S+/.exec(line)?.[0] ?? ''
  const body = / -d '(.+)'$/.exec(line)?.[1] ?? ''
  const headers = [...line.matchAll(/-H '([^:']+): ([^']+)'/g)].map(
    ([, name = '', value = '']) => [name, value] as [string, string],
  )
  const response = await fetch(url, { method: 'POST', headers, body })
  return (await response.json()) as Body
}

async function pastedIntoShell(place: Installation, line: string): Promise<Body> {
  const shell = place.spawn(['sh', '-c', line], { cwd: '/' })
  assert.deepEqual(await shell.exited, EXITED, shell.stderr)
  return JSON.parse(shell.stdout) as Body
}

test('the first start, and later ones', async (t) => {
  const place = await installation(t)
  const assertPrivate = async (file: string) => {
    if (process.platform !== 'win32') assert.equal((await stat(file)).mode & 0o777, 0o600, file)
  }
  const first = await place.start()
  const key = await first.firstKey()
  const [line] = await first.program.line(/^curl .+$/m)
  const [, tokenFile = ''] = await first.program.line(/^The admin token is in (.+)$/m)
  const token = (await readFile(tokenFile, 'utf8')).trim()
  const lock = `${place.database}.lock`

  await t.test('the printed curl line works as pasted', async () => {
    const { data } = hasCurl ? await pastedIntoShell(place, line) : await sentByHand(line)
    assert.equal(data?.status, 'completed')
    assert.match(String(data?.result?.response_content), /Hello, Parley!/)
  })
  await t.test('the first start creates an admin token that only its owner can read', async () => {
    assert.equal(tokenFile, `${place.database}.admin-token`)
    await assertPrivate(tokenFile)
    assert.deepEqual([await overview(first, token), await overview(first, `${token}x`)], [200, 401])
  })
  await t.test('the first start creates an account and prints its key', async () => {
    assert.match(first.program.stdout, /listening on http:\/\/127\.0\.0\.1:\d+\n/)
    assert.match(first.program.stdout, /simulator/, 'it says that no model is configured')
    assert.equal((await first.caller(key).single('Hello')).status, 200)
    await assertPrivate(lock)
    assert.deepEqual(await first.stop(), EXITED)
    assert.ok(!first.program.stderr.includes(key), 'the key is not in the log')
    const [only, ...others] = (await place.json(['keys', 'list'])) as { account: string; tier: string }[]
    assert.deepEqual([only?.account, only?.tier, others], ['default', 'user_max', []])
  })

  // Earlier versions created the lock like this.
  await chmod(lock, 0o644)
  const second = await place.start()
  await t.test(
    'the second start prints no key, uses the token again, and restricts the lock to its owner',
    async () => {
      await assertPrivate(lock)
      assert.equal((await second.caller(key).single('Hello again')).status, 200)
      assert.equal(await overview(second, token), 200)
      await second.stop()
      assert.doesNotMatch(second.program.stdout, /prl_|curl/)
    },
  )

  const third = await place.start({ env: { PARLEY_ADMIN_TOKEN: 'of-my-own' } })
  await t.test('PARLEY_ADMIN_TOKEN replaces the token, and no output contains either', async () => {
    assert.deepEqual([await overview(third, token), await overview(third, 'of-my-own')], [401, 200])
    await third.stop()
    const printed = [first, second, third].map(({ program }) => program.stdout + program.stderr).join()
    for (const secret of [token, 'of-my-own']) assert.ok(!printed.includes(secret))
    assert.ok(!third.program.stdout.includes('admin token'), 'it says nothing of a file that it does not use')
  })
})

const FOLDER_CREATED = /"level":40,.*created the folder of the database/

test('a start that creates a folder other than the default logs its full path, once', async (t) => {
  const place = await installation(t)
  const logged = async () => {
    const server = await place.start({ env: { DATABASE_URL: 'sqlite:typo/inside/parley.db' } })
    await server.stop()
    return server.program.stderr.split('\n').filter((line) => FOLDER_CREATED.test(line))
  }
  const [line = '', ...others] = await logged()
  assert.deepEqual(others, [])
  assert.equal(JSON.parse(line).folder, join(await realpath(place.folder), 'typo/inside'))
  assert.deepEqual(await logged(), [])
})

test('at LOG_LEVEL silent it still says where it listens and what the key is, and logs nothing', async (t) => {
  const place = await installation(t)
  const server = await place.start({ env: { LOG_LEVEL: 'silent' } })
  const key = await server.firstKey()
  assert.equal((await server.caller(key).single('Hello')).status, 200)
  assert.deepEqual(await server.stop(), EXITED)
  assert.equal(server.program.stderr, '')
})

test('with a model configured, the example names it, and there is no word of the simulator', async (t) => {
  const models = await startModelServer({}, t)
  const own = { base_url: models.baseUrl, api_key_env: null }
  const small = { targets: [{ upstream: 'own', model: 'a-model' }] }
  const place = await installation(t, { settings: { upstreams: { own }, models: { small } } })
  const server = await place.start({ env: { DATABASE_URL: 'sqlite:./data/parley.db' } })
  const [line] = await server.program.line(/^curl .+$/m)
  assert.match(line, /"model":"small"/)
  assert.match(String((await sentByHand(line)).data?.result?.response_content), /^echo: /)
  const [, at] = await server.program.line(/^Model server own at (\S+), model a-model: it answers$/m)
  assert.equal(at, models.baseUrl)
  await server.stop()
  assert.doesNotMatch(server.program.stdout, /simulator/i)
  assert.doesNotMatch(
    server.program.stderr,
    FOLDER_CREATED,
    'the default folder is created without a warning',
  )
})

test('a model server that is down is a warning at the start, and stops nothing', async (t) => {
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
  assert.deepEqual(await server.stop(), EXITED)
})

test('a server whose standard output is closed continues when it prints about its model servers', async (t) => {
  const asked = Promise.withResolvers<() => void>()
  const models = await serveHttp(t, (_request, response) => {
    asked.resolve(() => response.writeHead(503).end())
  })
  const place = await installation(t, { upstream: `${models}/v1` })
  const closed = `"${process.execPath}" "${MAIN}" serve | head -n 1; sleep 60`
  const server = await place.startAs(['sh', '-c', closed])
  const answer = await asked.promise
  answer()
  await server.program.logged(/a model server does not respond as expected/)
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200)
  assert.ok(!server.program.stderr.includes('uncaught'), server.program.stderr)
})

test('a port in use is reported, and the key is kept for the start that can listen', async (t) => {
  const { port } = new URL(await serveHttp(t, (_request, response) => response.end()))
  const place = await installation(t)
  const refused = await place.parley(['serve'], { env: { PORT: port }, alone: true })
  reported(refused, new RegExp(`Port ${port} on 127\\.0\\.0\\.1 is in use\\. .*PORT`))
  const server = await place.start()
  assert.equal((await server.caller(await server.firstKey()).single('Hello')).status, 200)
})

test('a second server on the same file is refused, and the first continues', async (t) => {
  const place = await installation(t)
  const first = await place.start()
  const caller = first.caller(await first.firstKey())
  for (const _ of [1, 2]) {
    const says = /^Another Parley server is using .*parley\.db\. Stop it first, or .*DATABASE_URL\.\n$/
    reported(await place.parley(['serve'], { alone: true }), says)
    assert.equal((await caller.single('Still here?')).status, 200)
  }
  await first.crash()
  // The lock ends with the process that holds it, even if that process was killed.
  const next = await place.start()
  assert.equal((await next.caller(await first.firstKey()).single('Hello')).status, 200)
})

test('of servers started together on a new file exactly one serves', async (t) => {
  const place = await installation(t)
  const programs = [1, 2, 3].map(() => place.spawn([process.execPath, MAIN, 'serve']))
  const outcomes = await Promise.allSettled(programs.map((program) => program.line(/listening on .+\n/)))
  const refused = programs.filter((_, index) => outcomes[index]?.status === 'rejected')
  assert.equal(refused.length, 2)
  for (const program of refused) {
    assert.deepEqual(await program.exited, { code: 1, signal: null })
    assert.match(program.stderr, /Another Parley server is using/)
  }
})

/** A caller waits for a job at the model server when the server is ended. The job must end during the drain. */
async function drains(
  t: TestContext,
  start: (place: Installation) => Promise<Server>,
  end: (server: Server, isAnswered: boolean) => void,
): Promise<Server> {
  const models = await startModelServer({ script: () => reply.stall() }, t)
  const place = await installation(t, { upstream: models.baseUrl })
  const server = await start(place)
  const waiting = server.caller(await server.firstKey()).single('Hello')
  await models.received(1)
  await gauge(server.url, 'parley_waiters', 1)
  end(server, false)
  const answer = await waiting
  assert.deepEqual([answer.status, answer.body.data?.status], [202, 'timeout'])
  end(server, true)
  models.release()
  // When the output is closed, all processes that the server started have ended.
  await server.exited
  assert.deepEqual(jobsByStatus(place.database), { completed: 1 }, 'the job ended during the drain')
  return server
}

test('npm start serves; SIGTERM to npm, even twice, drains the server and frees the port', async (t) => {
  const server = await drains(
    t,
    (place) => {
      const env = { PARLEY_CONFIG: `${place.folder}/parley.config.json` }
      return place.startAs(['npm', 'start'], { cwd: CLONE, env })
    },
    // If npm is still running, its exit must not interrupt the drain.
    (npm) => npm.kill('SIGTERM'),
  )
  await assert.rejects(fetch(server.url), 'the port is free')
})

test('a server that npm started drains when its parent is gone', async (t) => {
  // Because of the `exit`, the shell does not replace itself with the server, but stays between npm and the server.
  const shell = ['sh', '-c', `"${process.execPath}" "${MAIN}" serve; exit $?`]
  const { program } = await drains(
    t,
    (place) => place.startAs(shell, { env: { npm_lifecycle_event: 'start' } }),
    (server, isAnswered) => {
      if (!isAnswered) server.kill('SIGKILL')
    },
  )
  assert.match(program.stderr, /npm, which started this process, has exited/)
})

test('signals that arrive again do not cut the drain short', async (t) => {
  const server = await drains(
    t,
    (place) => place.start(),
    (server, isAnswered) => {
      server.kill('SIGTERM')
      if (isAnswered) server.kill('SIGINT')
    },
  )
  assert.deepEqual(await server.exited, EXITED)
})
