import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { folderForTest } from '../../test/support/backup-files.ts'
import { type PasswordSource, withPassword } from './copy.ts'
import { CommandError } from './input-output.ts'

const ADDRESS = 'postgres://parley@db.example/parley?sslmode=require'
const from = (file?: string): PasswordSource => ({ option: '--from', variable: 'FROM', file })

function passwordIn(address: string): string {
  return decodeURIComponent(new URL(address).password)
}

test('the password comes from the file, else from the environment, whatever its characters', async (t) => {
  const file = join(await folderForTest(t), 'password')
  const password = 'p@ss:w/o?r#d %41 é'
  await writeFile(file, `${password}\nnot this line`)
  assert.equal(passwordIn(withPassword(ADDRESS, from(file), { FROM: 'other' })), password)
  const address = withPassword(ADDRESS, from(), { FROM: password })
  assert.equal(passwordIn(address), password)
  assert.equal(new URL(address).search, '?sslmode=require')
  assert.equal(withPassword(ADDRESS, from(), {}), ADDRESS)
  assert.equal(withPassword(ADDRESS, from(), { FROM: '' }), ADDRESS)
})

test('two passwords, a file that holds none, and a password for SQLite are errors; a variable for SQLite is not', async (t) => {
  const folder = await folderForTest(t)
  const [file, empty] = [join(folder, 'password'), join(folder, 'empty')]
  await writeFile(file, 'secret')
  await writeFile(empty, '\nsecret')
  const says = (pattern: RegExp) => (error: unknown) => {
    assert.ok(error instanceof CommandError)
    assert.match(error.message, pattern)
    assert.doesNotMatch(error.message, /secret/)
    return true
  }
  const own = 'postgres://parley:secret@db/parley'
  assert.throws(
    () => withPassword(own, from(file), {}),
    says(/^--from: both this URL and --from-password-file contain a password/),
  )
  assert.throws(
    () => withPassword(own, from(), { FROM: 'x' }),
    says(/^--from: both this URL and FROM contain a password\./),
  )
  assert.throws(() => withPassword(`${ADDRESS}&password=secret`, from(file), {}), says(/contain a password/))
  assert.throws(() => withPassword(ADDRESS, from(empty), {}), says(/first line of .*empty is empty/))
  assert.throws(
    () => withPassword(ADDRESS, from(join(folder, 'none')), {}),
    says(/none cannot be read: ENOENT/),
  )
  assert.throws(() => withPassword('sqlite:a.db', from(file), {}), says(/a SQLite file has no password/))
  assert.equal(withPassword('sqlite:a.db', from(), { FROM: 'x' }), 'sqlite:a.db')
})
