/**
 * Tests `parley check`: valid configurations pass, invalid ones are reported with the path of the setting, and no server is
 * started.
 */
import assert from 'node:assert/strict'
import { readdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import test, { after, type TestContext } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { startCommandsAnywhere } from './many-commands.ts'
import { installation } from './server-process.ts'

const timeout = 60_000

const parley = startCommandsAnywhere({ after })

/** Starts a model server that responds to every request with this status and body, and records the requests. */
async function upstreamAnswering(t: TestContext, status: number, body = '{}') {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers.authorization ?? 'without a key'}`)
    response.writeHead(status).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked }
}

test('without a configuration all is well, and the simulator is named', { timeout }, async (t) => {
  const place = await installation(t)
  const { code, stdout, stderr } = await parley(place, ['check'])
  assert.deepEqual([code, stderr], [0, ''])
  assert.match(stdout, /simulator/)
  assert.match(stdout, /parley\.config\.json/, 'it says which file was read')
  assert.ok(!/WRONG/.test(stdout), stdout)
})

test('a database that does not exist is not created, and its folder is checked', { timeout }, async (t) => {
  const place = await installation(t)
  const before = await readdir(place.folder)
  const missing = await parley(place, ['check'], { env: { DATABASE_URL: 'sqlite:./new/folder/parley.db' } })
  assert.equal(missing.code, 0, missing.stdout)
  assert.match(
    missing.stdout,
    /^ok +database: sqlite:\S+ does not exist yet, and the first start creates it$/m,
  )
  assert.deepEqual(await readdir(place.folder), before)

  const inFile = await parley(place, ['check'], {
    env: { DATABASE_URL: 'sqlite:./parley.config.json/parley.db' },
  })
  assert.equal(inFile.code, 1)
  assert.match(inFile.stdout, /^WRONG database: .*cannot be opened: ENOTDIR.*folder and its permissions/m)

  await writeFile(join(place.folder, 'empty.db'), '')
  const empty = await parley(place, ['check'], { env: { DATABASE_URL: 'sqlite:./empty.db' } })
  assert.match(empty.stdout, /^ok +database: sqlite:\S+ opens, and the first start creates its tables$/m)

  await parley(place, ['migrate'])
  const { stdout } = await parley(place, ['check'])
  assert.match(stdout, /^ok +database: .* opens, and has no account yet$/m)
})

test('an upstream that answers passes, and is asked with its key', { timeout }, async (t) => {
  const upstream = await startModelServer({}, t)
  const place = await installation(t, { upstream: upstream.baseUrl })
  const env = { OPENAI_API_KEY: 'sk-canary', OPENAI_MODEL: 'a-model' }
  const { code, stdout } = await parley(place, ['check'], { env })
  assert.equal(code, 0, stdout)
  const asked = upstream.requests.map(({ method, path, headers }) => [method, path, headers.authorization])
  const authorization = 'Bearer sk-canary'
  assert.deepEqual(asked, [
    ['GET', '/v1/models', authorization],
    ['POST', '/v1/chat/completions', authorization],
  ])
  assert.ok(!stdout.includes('sk-canary'), 'a key is never printed')
})

const key = { OPENAI_API_KEY: 'sk-canary' }

for (const [status, says] of [
  [401, /WRONG upstream openai: rejects the API key \(HTTP 401\)/],
  [403, /WRONG upstream openai: rejects the API key \(HTTP 403\)/],
  [500, /WRONG upstream openai: .*500/],
] as const) {
  test(`an upstream that answers ${status} is wrong`, { timeout }, async (t) => {
    const place = await installation(t, { upstream: (await upstreamAnswering(t, status)).url })
    const { code, stdout } = await parley(place, ['check'], { env: key })
    assert.equal(code, 1)
    assert.match(stdout, says)
    assert.match(stdout, /^ok +database/m, 'the rest is checked all the same')
  })
}

test('a server that answers 200 to everything, without models or completions, is wrong', {
  timeout,
}, async (t) => {
  const place = await installation(t, { upstream: (await upstreamAnswering(t, 200)).url })
  const { code, stdout } = await parley(place, ['check'], { env: key })
  assert.equal(code, 1)
  assert.match(
    stdout,
    /WRONG upstream openai: has no chat completions at this path.*\n {6}To do: set OPENAI_BASE_URL to /,
  )
})

test('--json has the fields of 0.2.0, and what to change', { timeout }, async (t) => {
  const place = await installation(t, { upstream: 'http://127.0.0.1:1/v1' })
  const { code, stdout } = await parley(place, ['check', '--json'])
  assert.equal(code, 1)
  const findings = JSON.parse(stdout) as {
    ok: boolean
    about: string
    check: string | null
    fix: string | null
  }[]
  for (const finding of findings) {
    assert.deepEqual(Object.keys(finding), ['ok', 'warns', 'about', 'check', 'says', 'fix'])
  }
  const [wrong] = findings.filter(({ ok }) => !ok)
  assert.deepEqual([wrong?.about, wrong?.check], ['upstream openai', 'reachable'])
  assert.match(wrong?.fix ?? '', /^start the model server, or correct OPENAI_BASE_URL/)
})

test('--calls says that it pays, checks each target, and prints what it finds', { timeout }, async (t) => {
  const upstream = await startModelServer({}, t)
  upstream.script = ({ body }) => (body.response_format ? reply.json({ river: 'Amur' }) : undefined)
  const place = await installation(t, { upstream: upstream.baseUrl })
  const { code, stdout } = await parley(place, ['check', '--calls'], { env: { OPENAI_MODEL: 'a-model' } })
  assert.equal(code, 0, stdout)
  assert.match(stdout, /^ok +calls: makes 5 paid calls to each of 1 target$/m)
  assert.match(stdout, /^ok +target openai\/a-model: answers in \d+ ms/m)
  assert.match(stdout, /^ok +target openai\/a-model: a developer message reaches the model/m)
})

test('an upstream that cannot be reached is wrong', { timeout }, async (t) => {
  // No process listens on port 1.
  const place = await installation(t, { upstream: 'http://127.0.0.1:1/v1' })
  const { code, stdout } = await parley(place, ['check'])
  assert.equal(code, 1)
  assert.match(stdout, /WRONG upstream openai: cannot be reached: .*ECONNREFUSED/)
})

const wrong: readonly { why: string; settings: object; env?: Record<string, string>; says: RegExp }[] = [
  {
    why: 'an unknown key',
    settings: { jobs: { concurency: 3 } },
    says: /jobs\.concurency: unknown setting/,
  },
  {
    why: 'a bad value',
    settings: { jobs: { concurrency: 'many' } },
    says: /jobs\.concurrency: must be integer/,
  },
  {
    why: 'an unknown upstream',
    settings: { models: { 'gpt-5': { targets: [{ upstream: 'azure', model: 'x' }] } } },
    says: /models\.gpt-5\.targets: there is no upstream azure/,
  },
  {
    why: 'a key variable that is not set',
    settings: { upstreams: { openai: { api_key_env: 'MY_KEY' } } },
    says: /upstreams\.openai\.api_key_env: the environment variable MY_KEY is not set/,
  },
  { why: 'a bad level', settings: {}, env: { LOG_LEVEL: 'loud' }, says: /LOG_LEVEL: must be one of/ },
]

for (const { why, settings, env, says } of wrong) {
  test(`check and serve report ${why}, with its path`, { timeout }, async (t) => {
    const place = await installation(t, { settings: settings as Record<string, unknown> })
    const checked = await parley(place, ['check'], { ...(env && { env }) })
    assert.equal(checked.code, 1)
    assert.match(checked.stdout, says)
    assert.match(checked.stdout, /^WRONG configuration/m)
    const served = await place.parley(['serve'], { ...(env && { env }) })
    assert.deepEqual([served.code, served.stdout], [1, ''])
    assert.match(served.stderr, says)
  })
}

test('check passes next to a running server', { timeout }, async (t) => {
  const place = await installation(t)
  const server = await place.start()
  const { code, stdout } = await parley(place, ['check'])
  assert.equal(code, 0, stdout)
  assert.equal((await server.caller(await server.firstKey()).single('Hello')).status, 200)
})

test('a shutdown that may take longer than supervisors wait is a warning', { timeout }, async (t) => {
  const place = await installation(t, {
    settings: { shutdown: { listen_seconds: 8 }, jobs: { drain_seconds: 20 } },
  })
  const { code, stdout } = await parley(place, ['check'])
  assert.equal(code, 0, stdout)
  assert.match(
    stdout,
    /^note +configuration: a shutdown can take 31 s .*\n +To do: .*terminationGracePeriodSeconds/m,
  )
  await place.configure({ shutdown: { listen_seconds: 7 }, jobs: { drain_seconds: 20 } })
  const fits = await parley(place, ['check'])
  assert.ok(!fits.stdout.includes('a shutdown can take'), fits.stdout)
})
