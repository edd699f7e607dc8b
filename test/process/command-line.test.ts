/** Tests the command line as people and scripts use it: its output, its exit codes, and its effect on a server. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import test, { after } from 'node:test'
import type { Command } from 'commander'
import { declareCommands } from '../../src/cli/program.ts'
import { eventually } from '../support/eventually.ts'
import type { Caller, Reply } from './caller.ts'
import { assertEnded, type Mistake, reportEach, reported } from './mistakes.ts'
import { installation, MAIN } from './server-process.ts'

const KNOWN_WITHIN_MS = 5000
const NO_JOB = '01890a5d-ac96-774b-bcce-b302099a8057'

interface ListedKey {
  readonly id: string
  readonly account: string
  readonly tier: string
  readonly created_at: number
  readonly label: string | null
  readonly expires_at: number | null
  readonly revoked_at: number | null
}

const createKey = (account: string, tier: string, ...more: readonly string[]) => [
  ...['keys', 'create', '--account', account, '--tier', tier],
  ...more,
]

/** The longest label. Each of its characters has two UTF-16 units. */
const LABEL = '🙂'.repeat(100)

/** The tests share an installation and its server. The first key was created before the first start. */
const place = await installation({ after })
const created = await place.parley(createKey('first', 'user_pro'))
/** `--threads` has no effect any more, but must still be accepted. */
const server = await place.start({ args: ['--threads', '2'] })
const key = created.stdout.trim()

async function keyOf(account: string): Promise<ListedKey | undefined> {
  const keys = (await place.json(['keys', 'list'])) as ListedKey[]
  return keys.find((one) => one.account === account)
}

async function readUntil(caller: Caller, accept: (reply: Reply) => boolean): Promise<void> {
  await eventually(() => caller.read(NO_JOB), accept, { withinMs: KNOWN_WITHIN_MS })
}

test('keys create prints the key and nothing else, and the key works', async () => {
  assertEnded(created, { code: 0, stderr: '', stdout: /^prl_[0-9A-Za-z]{38}\n$/ })
  const again = await place.parley(createKey('first', 'user_pro'))
  assert.notEqual(again.stdout, created.stdout)
  assert.ok(!server.program.stdout.includes('prl_'), 'there is an account, so this is no first start')
  for (const { stdout } of [created, again]) {
    const answer = await server.caller(stdout.trim()).send('/api/v1/me')
    assert.equal((answer.body.data as { tier?: string }).tier, 'user_pro')
  }
})

test('keys list --json is an array of keys with times in Unix seconds', async (t) => {
  const place = await installation(t)
  const listed = () => place.json(['keys', 'list']) as Promise<ListedKey[]>
  assert.deepEqual(await listed(), [])
  const before = Math.floor(Date.now() / 1000)
  await place.output(createKey('ada', 'user_go', '--expires', '30', '--label', LABEL))
  await place.output(createKey('bob', 'user_free'))
  const [ada, bob, ...others] = await listed()
  const names = ['id', 'account', 'label', 'tier', 'created_at', 'expires_at', 'revoked_at', 'last_used_at']
  assert.deepEqual([Object.keys(ada ?? {}), Object.keys(bob ?? {}), others], [names, names, []])
  assert.deepEqual([ada?.account, ada?.tier, bob?.account, bob?.tier], ['ada', 'user_go', 'bob', 'user_free'])
  assert.deepEqual([ada?.label, bob?.label], [LABEL, null])
  const createdAt = Number(ada?.created_at)
  assert.ok(createdAt >= before && createdAt <= Date.now() / 1000, `created at ${createdAt}`)
  assert.equal(ada?.expires_at, createdAt + 30 * 86_400)
  assert.deepEqual([ada?.revoked_at, bob?.expires_at, bob?.revoked_at], [null, null, null])

  await place.output(['keys', 'revoke', ada?.id ?? ''])
  const [revoked, kept] = await listed()
  assert.ok(Number(revoked?.revoked_at) >= createdAt)
  assert.equal(kept?.revoked_at, null)

  const table = await place.output(['keys', 'list'])
  assert.equal(table.trim().split('\n').length, 3)
  assert.match(table, /ada +user_go .*revoked/)
})

test('a key revoked next to a running server stops within 5 seconds', async () => {
  const revoked = server.caller(await place.key('eva', 'user_go'))
  assert.equal((await revoked.read(NO_JOB)).status, 404, 'the new key works at once')
  const id = (await keyOf('eva'))?.id ?? ''
  assertEnded(await place.parley(['keys', 'revoke', id]), { code: 0, stderr: '' })
  await readUntil(revoked, ({ status }) => status === 401)
  assert.equal((await revoked.single('Hello')).status, 401)
  assert.equal((await server.caller(key).single('Hello')).status, 200)
  assert.equal((await place.parley(['keys', 'revoke', id])).code, 0, 'revoking again is no error')
})

test('a key ends when --expires says so', async () => {
  const made = await place.output(createKey('bob', 'user_go', '--expires', String(2 / 86_400)))
  const caller = server.caller(made.trim())
  assert.equal((await caller.read(NO_JOB)).status, 404)
  await readUntil(caller, ({ status }) => status === 401)
})

test('accounts tier takes effect on a running server', async () => {
  const caller = server.caller(await place.key('carl', 'user_free'))
  const three = ['one', 'two', 'three']
  assert.equal((await caller.batch(three)).status, 403)
  assertEnded(await place.parley(['accounts', 'tier', 'carl', 'user_go']), { code: 0, stderr: '' })
  const batchStatus = async () => (await caller.batch(three)).status
  const known = await eventually(batchStatus, (status) => status !== 403, { withinMs: KNOWN_WITHIN_MS })
  assert.equal(known, 202)
  assert.equal((await keyOf('carl'))?.tier, 'user_go')
})

test('accounts secret prints the secret alone; --rotate makes another', async () => {
  const secret = (...more: string[]) => place.parley(['accounts', 'secret', 'first', ...more])
  const first = await secret()
  assertEnded(first, { code: 0, stderr: '', stdout: /^whsec_[A-Za-z0-9+/]{32,}={0,2}\n$/ })
  assert.equal((await secret()).stdout, first.stdout)
  const rotated = await secret('--rotate')
  assert.match(rotated.stdout, /^whsec_\S+\n$/)
  assert.notEqual(rotated.stdout, first.stdout)
  assert.equal((await secret()).stdout, rotated.stdout)
})

test('migrate brings a database up to date, and says when there is nothing to do', async (t) => {
  const place = await installation(t)
  assertEnded(await place.parley(['migrate']), { code: 0, stderr: '', stdout: /\d+ migrations? w/ })
  const second = await place.parley(['migrate'])
  assert.deepEqual([second.code, second.stderr], [0, ''])
  assert.ok(!/\d+ migrations? w/.test(second.stdout), second.stdout)
})

test('a database written by a newer Parley is refused by every command', async (t) => {
  const place = await installation(t)
  await place.parley(['migrate'])
  const db = new DatabaseSync(place.database)
  db.exec('pragma user_version = 9999')
  db.close()
  for (const args of [['serve'], ['migrate'], ['keys', 'list']]) {
    reported(await place.parley(args), /newer Parley/)
  }
})

test('--help and --version end with 0', async () => {
  const help = await place.parley(['--help'])
  assert.deepEqual([help.code, help.stderr], [0, ''])
  for (const command of [
    ...['send', 'job', 'batch', 'serve', 'check', 'migrate', 'copy', 'backup', 'restore', 'listen', 'keys'],
    ...['accounts', 'jobs', 'usage', 'audit', 'scrub'],
  ]) {
    assert.match(help.stdout, new RegExp(`^ +${command}\\b`, 'm'))
  }
  const create = await place.output(['keys', 'create', '--help'])
  assert.match(create, /--account .*\n.*--tier .*user_free.*\n(.*\n)*.*--expires/)
  // This command runs in its own process, so that the test covers what a command does at its end.
  assertEnded(await place.parley(['--version'], { alone: true }), { code: 0, stdout: /^\d+\.\d+\.\d+\n$/ })
})

for (const command of ['keys create --help', 'send Hello']) {
  test(`\`${command}\` ends without an error if nobody reads its output`, async () => {
    const env = { PARLEY_URL: server.url, PARLEY_API_KEY: key }
    const pipe = `{ "$0" "$1" ${command}; echo "exit code $?" >&2; } | true`
    const program = place.spawn(['sh', '-c', pipe, process.execPath, MAIN], { env })
    assert.equal((await program.exited).code, 0)
    assert.equal(program.stderr, 'exit code 0\n')
  })
}

test('a command whose output cannot be written says so', { skip: !existsSync('/dev/full') }, async () => {
  const program = place.spawn(['sh', '-c', '"$0" "$1" --version >/dev/full', process.execPath, MAIN])
  assert.equal((await program.exited).code, 1)
  assert.match(program.stderr, /^Cannot write to standard output: ENOSPC.*\n$/)
})

function namesOf({ commands }: Command, before: readonly string[] = []): string[] {
  return commands.flatMap((command) => {
    const words = [...before, command.name()]
    return command.commands.length === 0 ? words.join(' ') : namesOf(command, words)
  })
}

test('every command has examples in its help', async () => {
  for (const command of namesOf(declareCommands(() => {}))) {
    const help = await place.output([...command.split(' '), '--help'])
    // The name of the command is in the usage line, and once more after it.
    assert.ok(help.split(`parley ${command}`).length > 2, `${command}: ${help}`)
  }
})

test('--json prints what operators are shown', async (t) => {
  const place = await installation(t)
  const said = async (...args: string[]) => {
    const { code, stdout, stderr } = await place.parley([...args, '--json'])
    assert.deepEqual([code, stderr], [0, ''], args.join(' '))
    return JSON.parse(stdout)
  }
  assert.ok((await said('migrate')).steps > 0)
  const { key, ...made } = await said('keys', 'create', '--account', 'ada', '--tier', 'user_go')
  assert.match(key, /^prl_/)
  assert.deepEqual(made, { account: 'ada', tier: 'user_go' })
  assert.deepEqual(await said('accounts', 'tier', 'ada', 'user_pro'), { account: 'ada', tier: 'user_pro' })
  assert.match((await said('accounts', 'secret', 'ada')).secret, /^whsec_/)
  const [{ id }] = await said('keys', 'list')
  assert.deepEqual(await said('keys', 'revoke', id), { id, revoked_now: true })
  assert.deepEqual(await said('keys', 'revoke', id), { id, revoked_now: false })
  assert.deepEqual(await said('callbacks', 'replay', '--all-failed'), { replayed: 0 })
  const findings = (await said('check')) as { ok: boolean; about: string }[]
  assert.deepEqual(
    findings.map(({ ok, about }) => [ok, about]),
    [
      [true, 'configuration'],
      [true, 'database'],
      [true, 'models'],
    ],
  )
  const to = join(place.folder, 'copy.db')
  const copied = await said('copy', '--from', `sqlite:${place.database}`, '--to', `sqlite:${to}`)
  assert.deepEqual([copied.accounts, copied.keys, copied.waiting], [1, 1, 0])
  const file = join(place.folder, 'backup.db')
  const jobs = { pending: 0, assigned: 0, completed: 0, failed: 0 }
  const { seconds, bytes, schema, ...backup } = await said('backup', file)
  assert.ok(seconds > 0 && bytes > 0 && schema > 0)
  const holds = { file, accounts: 1, keys: 1, jobs, callbacks_owed: 0, newest_job_at: null }
  assert.deepEqual(backup, holds)
  const { kept_aside, schema_steps, ...restored } = await said('restore', file, '--force')
  assert.match(kept_aside, /parley\.db\.replaced-\d{4}-/)
  assert.equal(schema_steps, 0)
  assert.deepEqual({ ...restored, seconds }, { ...holds, seconds, bytes, schema })
})

const mistakes: readonly Mistake[] = [
  { args: 'keys create --tier user_go', says: /--account/ },
  { args: 'keys create --account ada', says: /--tier/ },
  { args: 'keys create --account ada --tier gold', says: /user_free, user_go, user_pro, user_max/ },
  { args: 'keys create --account ../ada --tier user_go', says: /letters, digits/ },
  { args: 'keys create --account eve --tier user_go', says: /parley accounts tier eve user_go/ },
  { args: 'keys create --account ada --tier user_go --expires 0', says: /positive number/ },
  { args: 'keys create --account ada --tier user_go --expires soon', says: /positive number/ },
  { args: 'keys create --account ada --tier user_go --expires 1e12', says: /at most 36500/ },
  {
    args: `keys create --account eve --label ${'x'.repeat(101)}`,
    says: /--label: must be 1 to 100 characters in one line/,
  },
  { args: 'tokens create ', says: /The name must be 1 to 64 characters in one line/ },
  { args: 'keys rotate key_none --grace 0', says: /parley keys list/ },
  { args: 'keys rotate key_none --grace -1', says: /a number from 0 to 8760/ },
  { args: 'keys revoke key_none', says: /parley keys list/ },
  { args: 'accounts secret nobody', says: /parley keys create --account nobody/ },
  { args: 'accounts secret nobody --rotate', says: /parley keys create --account nobody/ },
  { args: 'accounts tier nobody user_go', says: /parley keys create --account nobody/ },
  { args: 'accounts tier eve gold', says: /user_free, user_go, user_pro, user_max/ },
  { args: 'accounts suspend nobody', says: /parley accounts list/ },
  { args: 'accounts resume nobody', says: /parley accounts list/ },
  { args: 'accounts delete nobody --yes', says: /parley accounts list/ },
  { args: 'accounts delete eve', says: /Deleting account eve needs confirmation.*--yes/ },
  {
    args: 'accounts cap eve',
    says: /--jobs, --tokens, --monthly-cost, --open-jobs and --stored-bytes, each with N, none or tier/,
  },
  { args: 'accounts cap eve --jobs -1', says: /whole number of at least 0, none, or tier/ },
  { args: 'accounts cap eve --tokens some', says: /whole number of at least 0, none, or tier/ },
  {
    args: 'accounts cap eve --monthly-cost=-0.5',
    says: /an amount of at least 0, such as 12.50, none, or tier/,
  },
  { args: 'accounts cap nobody --jobs 1', says: /parley accounts list/ },
  { args: 'jobs cancel', says: /either a job ID or --account NAME/ },
  { args: `jobs cancel ${NO_JOB} --account eve`, says: /either a job ID or --account NAME/ },
  { args: `jobs cancel ${NO_JOB} --running`, says: /--running can only be used with --account/ },
  { args: `jobs cancel ${NO_JOB}`, says: /Job .* not found: .*expired/ },
  { args: 'jobs cancel nonsense', says: /Job nonsense not found/ },
  { args: 'jobs cancel --account nobody', says: /parley accounts list/ },
  { args: 'jobs rerun', says: /a job ID, or at least one of --account, --error-code, --model/ },
  { args: `jobs rerun ${NO_JOB} --account eve`, says: /either a job ID or a filter/ },
  { args: `jobs rerun ${NO_JOB}`, says: /Job .* not found: .*expired/ },
  { args: 'jobs rerun --account eve --before x', says: /--before: must be a job ID/ },
  { args: 'jobs rerun --account eve --limit 0', says: /whole number from 1 to 10000/ },
  { args: 'jobs rerun --status open', says: /Allowed choices are failed, completed/ },
  { args: `jobs delete ${NO_JOB}`, says: /Job .* not found: .*expired/ },
  { args: 'usage --month 2026-13', says: /must be a month in the form YYYY-MM/ },
  { args: 'usage --by account,day', says: /Each key must be one of month, account, model/ },
  { args: 'usage --csv --json', says: /cannot be used with/ },
  { args: 'audit --before nonsense', says: /--before: nonsense is not the ID of an audit log entry/ },
  { args: 'audit --limit 0', says: /whole number from 1 to 10000/ },
  {
    args: 'accounts suspend eve',
    env: { PARLEY_OPERATOR: 'x'.repeat(65) },
    says: /PARLEY_OPERATOR: must be 1 to 64/,
  },
  { args: 'serve --threads 0', says: /--threads.*auto or a whole number from 1 to 64/ },
  { args: 'serve --threads 65', says: /--threads.*auto or a whole number from 1 to 64/ },
  {
    args: 'serve --role worker',
    says: /--role worker needs a database that several nodes can share\. Set DATABASE_URL=postgres/,
  },
  { args: 'servve', says: /unknown command 'servve'\n\(Did you mean serve\?\)/ },
  // src/config/load.test.ts tests more mistakes in the configuration.
  { args: 'keys list --config none.json', says: /none\.json: the configuration file does not exist/ },
]

test('serve --threads has no effect, and the log says what to do instead', async () => {
  const [line] = await server.program.logged(/.*setting threads has no effect.*/)
  assert.match(line, /run several nodes on one Postgres/)
  const { threads, level } = JSON.parse(line)
  assert.deepEqual([threads, level], [2, 40])
})

test('mistakes are reported on standard error, with the remedy and exit code 1', async (t) => {
  await place.key('eve', 'user_free')
  reported(await place.parley(['servve'], { alone: true }), /unknown command/)
  await reportEach(t, mistakes, place)
})

test('a file that is not a database, and one that cannot be created, are reported without a stack', async () => {
  const text = join(place.folder, 'text.db')
  await writeFile(text, 'This file is a text, and not a database at all.'.repeat(100))
  for (const file of [text, join(text, 'below-a-file.db'), '/proc/no/such/folder.db']) {
    for (const args of [['serve'], ['keys', 'list'], ['migrate']]) {
      reported(await place.parley(args, { env: { DATABASE_URL: `sqlite:${file}` } }), /\.db/)
    }
  }
})
