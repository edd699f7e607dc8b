import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '../../test/parley.ts'
import { adminToken } from './admin-tokens.ts'

const noModes = process.platform === 'win32' && 'this system has no modes of files'

const databaseIn = async (t: TestContext) => join(await temporaryFolder(t), 'parley.db')

test('a token is made once, next to the database, and read by its owner only', {
  skip: noModes,
}, async (t) => {
  const database = await databaseIn(t)
  const made = adminToken(null, database)
  assert.match(made.token ?? '', /^padm_[\w-]{43}$/)
  assert.deepEqual([made.file, made.note], [`${database}.admin-token`, null])
  assert.equal(statSync(made.file ?? '').mode & 0o777, 0o600)
  assert.deepEqual(adminToken(null, database), made)
  assert.deepEqual(readdirSync(join(database, '..')), ['parley.db.admin-token'], 'no draft is left')
  assert.notEqual(adminToken(null, await databaseIn(t)).token, made.token)
})

test('a given token is taken, and none is made', async (t) => {
  const database = await databaseIn(t)
  assert.deepEqual(adminToken('given', database), { token: 'given', file: null, note: null })
  assert.deepEqual(readdirSync(join(database, '..')), [])
})

test('a file that others could read is closed to them, and the operator is warned', {
  skip: noModes,
}, async (t) => {
  const database = await databaseIn(t)
  const { file, token } = adminToken(null, database)
  chmodSync(file ?? '', 0o644)
  const again = adminToken(null, database)
  assert.equal(again.token, token)
  assert.match(again.note ?? '', /other users could read the admin token/)
  assert.equal(statSync(file ?? '').mode & 0o777, 0o600)
  assert.equal(adminToken(null, database).note, null)
})

test('without a token that can be kept or read the admin API is closed, and nothing else', async (t) => {
  const database = await databaseIn(t)
  writeFileSync(`${database}.admin-token`, 'short')
  const unreadable = adminToken(null, database)
  assert.deepEqual([unreadable.token, unreadable.file], [null, null])
  assert.match(unreadable.note ?? '', /does not contain a token that Parley generated; remove the file/)
  assert.equal(readFileSync(`${database}.admin-token`, 'utf8'), 'short')
  const missing = adminToken(null, join(database, 'no', 'folder', 'parley.db'))
  assert.equal(missing.token, null)
  assert.match(missing.note ?? '', /the token file cannot be used .*set PARLEY_ADMIN_TOKEN/)
})

test('a Postgres has it in the working directory', async (t) => {
  const folder = join(await databaseIn(t), '..', 'work')
  mkdirSync(folder)
  const before = process.cwd()
  t.after(() => process.chdir(before))
  process.chdir(folder)
  const { file, token } = adminToken(null, null)
  assert.ok(file?.endsWith(join('data', 'parley.admin-token')), file ?? 'none')
  assert.deepEqual(adminToken(null, null).token, token)
})
