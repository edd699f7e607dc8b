/**
 * Tests `parley listen` with the real server, both as processes: callbacks are verified with the account's secret, and printed.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import test, { after } from 'node:test'
import { connectPostgres } from '../postgres/connection.ts'
import { freshDatabase } from '../postgres/database.ts'
import type { Caller } from './caller.ts'
import { post, signedCallback, startListener } from './listener.ts'
import { installation } from './server-process.ts'

const settings = { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0, 0, 0, 0] } }

/** The tests share this server. It may send callbacks to loopback. */
const place = await installation({ after }, { settings })
// If there is any account, the first start does not create the account `default`.
await place.key('first', 'user_go')
const server = await place.start()
let accounts = 0

async function newAccount() {
  const account = `ada${accounts++}`
  return { account, caller: server.caller(await place.key(account, 'user_go')) }
}

async function send(caller: Caller, url: string, content = 'Hello', payload: object = {}): Promise<string> {
  const job = {
    model: 'gpt-5-mini',
    response_format: { format: 'text' },
    messages: [{ role: 'user', content }],
    callback: { callback_url: `${url}/hook?a=b`, callback_payload: payload },
  }
  const reply = await caller.send('/api/v1/messages/batches', [job])
  assert.equal(reply.status, 202, reply.text)
  return reply.body.data?.job_ids?.[0] ?? ''
}

test('a callback of the server is verified and printed for people', async () => {
  const { account, caller } = await newAccount()
  const { url, program } = await startListener(place, ['--account', account])
  assert.match(program.stdout, /"callback_url": "http:\/\/127\.0\.0\.1:\d+\/hook"/)
  assert.match(program.stdout, /"allow_networks": \["127\.0\.0\.0\/8"\]/)
  assert.match(program.stdout, new RegExp(`^Verifying with the secret of account ${account} in sqlite:`, 'm'))
  const id = await send(caller, url, `Hello ${'x'.repeat(1000)}`, { order: 'ü' })
  const [said] = await program.line(/^\d\d:\d\d:\d\d {2}verified: job .*\n(?: {10}.*\n)+/m)
  assert.match(said, new RegExp(`verified: job ${id} completed\n`))
  assert.match(
    said,
    /^ +result +"This is a simulated .{150,250}… \(\d+ characters; --json shows everything\)$/m,
  )
  assert.match(said, /^ +payload +\{"order":"ü"\}$/m)
  assert.match(said, /^ +answered +200 to POST \/hook\?a=b$/m)
  assert.ok(!/duplicate|why/.test(said), said)

  const failed = await send(caller, url, '[[fail model_error]]')
  await program.line(new RegExp(`verified: job ${failed} failed\n +error +\\{"code":"model_error"`))
})

test('--json prints each callback whole on a line of its own, numbers to the last digit', async () => {
  const { account, caller } = await newAccount()
  const { url, program } = await startListener(place, ['--account', account, '--json'])
  const before = Date.now() / 1000
  const id = await send(caller, url)
  const [line] = await program.line(/^\{.*\}\n/)
  const { received_at, callback, ...about } = JSON.parse(line)
  assert.ok(received_at >= before && received_at <= Date.now() / 1000)
  assert.deepEqual(about, {
    verified: true,
    why: null,
    webhook_id: id,
    times: 1,
    duplicate: false,
    path: '/hook?a=b',
    answered: 200,
  })
  assert.deepEqual([callback.job_id, callback.status], [id, 'completed'])
  assert.match(callback.result.response_content, /simulated/)

  const secret = (await place.output(['accounts', 'secret', account])).trim()
  const long = 'x'.repeat(5000)
  const body = `{\r\n  "job_id": "a", "result": "${long}",\n "callback_payload": {"n": 12345678901234567890, "h": 1e400}\n}`
  assert.equal(await post(url, signedCallback(secret, { body })), 200)
  const [second] = await program.line(/^.*12345678901234567890, "h": 1e400.*\n/m)
  assert.deepEqual([JSON.parse(second).verified, JSON.parse(second).callback.result], [true, long])
  await post(url, { body: '[]', headers: { 'content-type': 'application/json' } })
  await program.logged(/rejected with 400/)
  assert.equal(program.stdout.trim().split('\n').length, 2, 'what is no callback is not on standard output')
})

test('--fail-first makes the server retry, which is reported as a duplicate', async () => {
  const { account, caller } = await newAccount()
  const { url, program } = await startListener(place, ['--account', account, '--json', '--fail-first', '2'])
  const id = await send(caller, url)
  await program.line(/(?:\{.*\}\n){3}/)
  const lines = program.stdout.trim().split('\n')
  assert.deepEqual(
    lines.map((line) => {
      const { webhook_id, verified, answered, times, duplicate } = JSON.parse(line)
      return [webhook_id, verified, answered, times, duplicate]
    }),
    [
      [id, true, 500, 1, false],
      [id, true, 500, 2, true],
      [id, true, 200, 3, true],
    ],
  )
  const people = await startListener(place, ['--account', account, '--status', '503', '--fail-first', '1'])
  await send(caller, people.url)
  await people.program.line(/duplicate +this webhook-id was received once before\n(?: .*\n)* +answered +200/)
  assert.match(people.program.stdout, /answered +503/)
})

test('while a secret is rotated the old and the new one verify', async () => {
  const { account, caller } = await newAccount()
  const old = (await place.output(['accounts', 'secret', account])).trim()
  const rotate = () => place.output(['accounts', 'secret', account, '--rotate'])
  const sinceBefore = await startListener(place, ['--account', account])
  const rotated = (await rotate()).trim()
  assert.notEqual(rotated, old)
  const others = await Promise.all([
    startListener(place, ['--secret', old]),
    startListener(place, [], { env: { PARLEY_CALLBACK_SECRET: rotated } }),
  ])
  for (const { url, program } of [sinceBefore, ...others]) {
    const id = await send(caller, url)
    await program.line(new RegExp(`  verified: job ${id}`))
  }
  // If no known secret verifies a callback, `listen` reads the secrets again, so it notices a rotation.
  const recent = (await rotate()).trim()
  const newest = (await rotate()).trim()
  const answers = [newest, recent, old].map((secret) => post(sinceBefore.url, signedCallback(secret)))
  assert.deepEqual(await Promise.all(answers), [200, 200, 401])
})

test("another account's callback is not verified, and is told how it can be", async () => {
  const { caller } = await newAccount()
  await place.key('default', 'user_go')
  const { url, program } = await startListener(place)
  await send(caller, url)
  await program.line(
    /NOT VERIFIED: job \S+ completed\n +why +no signature matches: a secret other than the secret of account default/,
  )
  await program.line(/answered +401/)
})

test('a database is not made by looking; one that is made later is found', async (t) => {
  const place = await installation(t, { settings })
  const { url, program } = await startListener(place)
  assert.match(
    program.stdout,
    /^Callbacks are not verified: there is no database sqlite:.*--secret or PARLEY_CALLBACK_SECRET/m,
  )
  assert.equal(await post(url, signedCallback('whsec_AAAA')), 200)
  await program.line(/NOT VERIFIED: job .*\n +why +there is no database/)
  assert.deepEqual(await readdir(place.folder), ['parley.config.json'])

  await place.key('default')
  const id = '0198c0de-0000-7000-8000-000000000002'
  const secret = (await place.output(['accounts', 'secret', 'default'])).trim()
  assert.equal(await post(url, signedCallback(secret, { id })), 200)
  await program.line(/ {2}verified: job /)
})

test('a file that is not a Parley database, or lacks the account, is left unchanged', async (t) => {
  const place = await installation(t)
  const other = new DatabaseSync(place.database)
  other.exec('create table theirs (a)')
  other.close()
  const before = await readFile(place.database)
  const { program } = await startListener(place)
  assert.match(
    program.stdout,
    /^Callbacks are not verified: the database sqlite:\S+ could not be read: no such table/m,
  )
  assert.deepEqual(await readFile(place.database), before)

  const text = join(place.folder, 'text.db')
  await writeFile(text, 'This is a text. '.repeat(100))
  const onText = await startListener(place, [], { env: { DATABASE_URL: `sqlite:${text}` } })
  assert.match(
    onText.program.stdout,
    /^Callbacks are not verified: the database sqlite:\S+text\.db could not be read/m,
  )

  const ours = await installation(t)
  await ours.parley(['migrate'])
  const accountless = await startListener(ours, ['--account', 'nobody'])
  assert.match(
    accountless.program.stdout,
    /^Callbacks are not verified: there is no account nobody in sqlite:/m,
  )
  assert.ok(!existsSync(`${ours.database}.lock`), 'no server was started on it')
})

test('on Postgres the account is looked up as well, and nothing is made', async (t) => {
  const databaseUrl = await freshDatabase(t)
  const place = await installation(t, { databaseUrl })
  const early = await startListener(place)
  assert.match(
    early.program.stdout,
    /^Callbacks are not verified: the database postgres:\S+ could not be read: .*accounts/m,
  )
  const client = await connectPostgres(t, databaseUrl)
  const made = 'select 1 from pg_class where relnamespace = current_schema()::regnamespace'
  assert.deepEqual((await client.query(made)).rows, [])

  await place.key('eva')
  const { url, program } = await startListener(place, ['--account', 'eva'])
  const secret = (await place.output(['accounts', 'secret', 'eva'])).trim()
  assert.equal(await post(url, signedCallback(secret)), 200)
  await program.line(/ {2}verified: job /)
})
