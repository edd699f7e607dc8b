/**
 * Tests `parley check`, and what `parley serve` rejects at its start for the same reasons: wrong settings, databases that are
 * unsuitable or missing, and model servers that do not answer. src/config/load.test.ts and src/cli/check/ test the single
 * cases.
 */
import assert from 'node:assert/strict'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { after, type TestContext } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { startCluster } from '../postgres/cluster.ts'
import { connectPostgres } from '../postgres/connection.ts'
import { freshDatabase, freshRealDatabase } from '../postgres/database.ts'
import { gauge } from './gauge.ts'
import { serveHttp } from './http-server.ts'
import { reported } from './mistakes.ts'
import { installation } from './server-process.ts'

type Environment = Readonly<Record<string, string>>

/** The tests that need no settings share a folder, which has no database. */
const place = await installation({ after })

async function check(env: Environment, ...args: readonly string[]) {
  const { code, stdout } = await place.parley(['check', ...args], { env })
  return { code, stdout }
}

async function passes(env: Environment, ...args: readonly string[]): Promise<string> {
  const { code, stdout } = await check(env, ...args)
  assert.equal(code, 0, stdout)
  return stdout
}

async function bothReport(env: Environment, says: RegExp, problem = says, at = place): Promise<void> {
  const { code, stdout } = await at.parley(['check'], { env })
  assert.equal(code, 1)
  assert.match(stdout, says)
  reported(await at.parley(['serve'], { env }), problem)
}

async function relationsIn(t: TestContext, url: string): Promise<unknown[]> {
  const ours = 'select 1 from pg_class where relnamespace = current_schema()::regnamespace'
  return (await (await connectPostgres(t, url)).query(ours)).rows
}

test('without a configuration all is well, and the simulator is named', async () => {
  const { code, stdout, stderr } = await place.parley(['check'])
  assert.deepEqual([code, stderr], [0, ''])
  assert.match(
    stdout,
    /^note +models: none is configured, so the built-in simulator answers\n +To do: .*OPENAI_API_KEY/m,
  )
  assert.match(stdout, /parley\.config\.json/, 'it says which file was read')
  assert.ok(!/WRONG/.test(stdout), stdout)
})

test('a database that does not exist is not created, and its folder is checked', async (t) => {
  const database = (path: string) => ({ DATABASE_URL: `sqlite:./${path}` })
  const before = await readdir(place.folder)
  const missing = await passes(database('new/folder/parley.db'))
  assert.match(missing, /^ok +database: sqlite:\S+ does not exist yet, and the first start creates it$/m)
  assert.deepEqual(await readdir(place.folder), before)

  const inFile = await check(database('parley.config.json/parley.db'))
  assert.equal(inFile.code, 1)
  assert.match(inFile.stdout, /^WRONG database: .*cannot be opened: ENOTDIR.*folder and its permissions/m)

  await writeFile(join(place.folder, 'empty.db'), '')
  const empty = await passes(database('empty.db'))
  assert.match(empty, /^ok +database: sqlite:\S+ opens, and the first start creates its tables$/m)

  const migrated = await installation(t)
  await migrated.output(['migrate'])
  assert.match(await migrated.output(['check']), /^ok +database: .* opens, and has no account yet$/m)
})

test('an upstream that answers passes, and is asked with its key', async (t) => {
  const { baseUrl, requests } = await startModelServer({}, t)
  const stdout = await passes({
    ...{ OPENAI_BASE_URL: baseUrl, OPENAI_MODEL: 'a-model', OPENAI_API_KEY: 'sk-canary' },
  })
  const asked = requests.map(({ method, path, headers }) => [method, path, headers.authorization])
  const authorization = 'Bearer sk-canary'
  assert.deepEqual(asked, [
    ['GET', '/v1/models', authorization],
    ['POST', '/v1/chat/completions', authorization],
  ])
  assert.ok(!stdout.includes('sk-canary'), 'a key is never printed')
})

const answering = (status: number) => async (t: TestContext) =>
  `${await serveHttp(t, (request, response) => void request.resume().on('end', () => response.writeHead(status).end('{}')))}/v1`

for (const [what, url, says] of [
  ['an upstream that answers 401', answering(401), /rejects the API key \(HTTP 401\)/],
  ['an upstream that answers 403', answering(403), /rejects the API key \(HTTP 403\)/],
  ['an upstream that answers 500', answering(500), /.*500/],
  [
    'a server that answers 200 to everything, without models or completions,',
    answering(200),
    /has no chat completions at this path.*\n {6}To do: set OPENAI_BASE_URL to /,
  ],
  // No process listens on port 1.
  ['an upstream that cannot be reached', () => 'http://127.0.0.1:1/v1', /cannot be reached: .*ECONNREFUSED/],
] as const) {
  test(`${what} is wrong`, async (t) => {
    const { code, stdout } = await check({ OPENAI_BASE_URL: await url(t), OPENAI_API_KEY: 'sk-canary' })
    assert.equal(code, 1)
    assert.match(stdout, new RegExp(`WRONG upstream openai: ${says.source}`))
    assert.match(stdout, /^ok +database/m, 'the rest is checked all the same')
  })
}

test('--json has the fields of 0.2.0, and what to change', async () => {
  const { code, stdout } = await check({ OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' }, '--json')
  assert.equal(code, 1)
  const findings: Record<string, unknown>[] = JSON.parse(stdout)
  for (const finding of findings) {
    assert.deepEqual(Object.keys(finding), ['ok', 'warns', 'about', 'check', 'says', 'fix'])
  }
  const [wrong] = findings.filter(({ ok }) => !ok)
  assert.deepEqual([wrong?.about, wrong?.check], ['upstream openai', 'reachable'])
  assert.match(String(wrong?.fix), /^start the model server, or correct OPENAI_BASE_URL/)
})

test('--calls says that it pays, checks each target, and prints what it finds', async (t) => {
  const { baseUrl } = await startModelServer(
    { script: ({ body }) => (body.response_format ? reply.json({ river: 'Amur' }) : undefined) },
    t,
  )
  const stdout = await passes({ OPENAI_BASE_URL: baseUrl, OPENAI_MODEL: 'a-model' }, '--calls')
  assert.match(stdout, /^ok +calls: makes 5 paid calls to each of 1 target$/m)
  assert.match(stdout, /^ok +target openai\/a-model: answers in \d+ ms/m)
  assert.match(stdout, /^ok +target openai\/a-model: a developer message reaches the model/m)
})

test('check and serve report an unknown key, with its path', async (t) => {
  const wrong = await installation(t, { settings: { jobs: { concurency: 3 } } })
  await bothReport(
    {},
    /^WRONG configuration: .*jobs\.concurency: unknown setting/m,
    /jobs\.concurency: /,
    wrong,
  )
})

test('without a model on all addresses, the server does not start, and names three ways out', async () => {
  await bothReport(
    { HOST: '0.0.0.0' },
    /^WRONG configuration: .*simulator: no model is configured/m,
    /no model is configured.*OPENAI_API_KEY.*upstreams.*PARLEY_SIMULATOR=true/,
  )
})

test('PARLEY_SIMULATOR=true lets it answer there; the output, the log and check say so', async (t) => {
  const place = await installation(t)
  const env = { HOST: '0.0.0.0', PARLEY_SIMULATOR: 'true', OPENAI_API_KEY: 'sk-x' }
  const server = await place.start({ env })
  await server.program.line(
    /^The built-in simulator answers every job, because the setting simulator is true\.$/m,
  )
  await server.program.logged(/"level":40,.*the simulator answers every job/)
  await gauge(server.url.replace('0.0.0.0', '127.0.0.1'), 'parley_waiters', 0)
  assert.match(
    await place.output(['check'], { env }),
    /^note +models: the built-in simulator answers every job.*\n +To do: .*PARLEY_SIMULATOR/m,
  )
})

test('a shutdown that may take longer than supervisors wait is a warning', async (t) => {
  const check = async (listen_seconds: number) => {
    const settings = { shutdown: { listen_seconds }, jobs: { drain_seconds: 20 } }
    return (await installation(t, { settings })).output(['check'])
  }
  assert.match(
    await check(8),
    /^note +configuration: a shutdown can take 31 s .*\n +To do: .*terminationGracePeriodSeconds/m,
  )
  assert.doesNotMatch(await check(7), /a shutdown can take/)
})

test('a fit Postgres passes, nothing in it is changed, and no password is shown', async (t) => {
  const url = new URL(await freshDatabase(t))
  url.password = 'canary'
  const { baseUrl } = await startModelServer({}, t)
  // Without a model server, the check would warn of the simulator.
  const env = { DATABASE_URL: url.href, OPENAI_BASE_URL: baseUrl, OPENAI_MODEL: 'a-model' }
  const stdout = await passes(env)
  assert.match(stdout, /^ok +database: Postgres \d+\.\d+ at 127\.0\.0\.1/m)
  assert.ok(!/canary|^note|WRONG/m.test(stdout), stdout)
  assert.deepEqual(await relationsIn(t, url.href), [])
})

test('a missing database is reported in a sentence', async () => {
  const env = { DATABASE_URL: 'postgres://nobody:canary@127.0.0.1:1/nowhere', PARLEY_SIMULATOR: 'true' }
  await bothReport(
    env,
    /^(?!.*canary).*WRONG database: .*ECONNREFUSED/s,
    /^(?!.*canary).*The database cannot be used: .*ECONNREFUSED.*DATABASE_URL/s,
  )
})

test('fsync=off stops the start; what only weakens is said', async (t) => {
  const cluster = await startCluster({ settings: { fsync: 'off', synchronous_commit: 'off' } })
  t.after(() => cluster.stop())
  const env = { DATABASE_URL: cluster.url(), PARLEY_SIMULATOR: 'true' }
  const weak = /^note +database: synchronous_commit is off/m
  await bothReport(env, new RegExp(`WRONG database: .*fsync=off[\\s\\S]*${weak.source}`, 'm'), /fsync=off/)
})

test('the error for a role that cannot create tables explains what to grant', async (t) => {
  const url = new URL(await freshRealDatabase(t))
  const owner = await connectPostgres(t, url.href)
  const role = `poor_${process.pid}`
  await owner.query(`create role ${role} login`)
  url.username = role
  const env = { DATABASE_URL: url.href, PARLEY_SIMULATOR: 'true' }
  await bothReport(env, new RegExp(`grant create on schema public to ${role}`), /permission denied/)
  await owner.query(`drop role ${role}`)
})

test('a Postgres of a newer Parley is refused', async (t) => {
  const databaseUrl = await freshDatabase(t)
  const place = await installation(t, { databaseUrl })
  await place.output(['migrate'])
  const client = await connectPostgres(t, databaseUrl)
  await client.query('insert into schema_version values (999)')
  reported(await place.parley(['serve']), /newer Parley/)
})
