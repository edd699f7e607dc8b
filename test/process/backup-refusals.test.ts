/** Tests what `parley backup` and `parley restore` reject: their messages, and what they leave unchanged. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { assertEnded, reported } from './mistakes.ts'
import { installation, MAIN } from './server-process.ts'

const PASSWORD = 'pass-word-that-nobody-sees'
/** The limit is in blocks of 512 bytes. */
const LIMIT_BLOCKS = 64
const canLimit = spawnSync('sh', ['-c', `ulimit -S -f ${LIMIT_BLOCKS}`]).status === 0

test('a backup and its restore are reported in plain text', async (t) => {
  const place = await installation(t)
  await place.key('ada')
  const made = await place.parley(['backup', 'one.db'])
  assert.deepEqual([made.code, made.stderr], [0, ''])
  assert.match(made.stdout, /^Backed up sqlite:\S+parley\.db to one\.db in \d+\.\d s: \d+\.\d MB\.\n/)
  assert.match(made.stdout, /^accounts +1\nkeys +1\njobs pending +0\njobs assigned +0\n/m)

  const twice = await place.parley(['backup', 'one.db'])
  reported(twice, /^one\.db already exists\. Name another file, or replace it with --force\.\n$/)
  reported(await place.parley(['restore', 'one.db']), /parley\.db holds accounts or jobs, .*With --force/)
  const forced = await place.parley(['restore', 'one.db', '--force'])
  assertEnded(forced, {
    code: 0,
    stderr: '',
    stdout: /^Restored one\.db to sqlite:\S+parley\.db in \d+\.\d s\.\n/,
  })
  assert.match(forced.stdout, /\nThe previous database was renamed to \S+parley\.db\.replaced-\S+\.\n/)
  assert.match(
    forced.stdout,
    /\nKeys that were revoked since the backup are valid again, and so are admin tokens/,
  )
  const missing = await place.parley(['backup', 'x.db'], { env: { DATABASE_URL: 'sqlite:none/none.db' } })
  reported(missing, /^There is no database none\/none\.db to back up\.\n$/)
  assert.ok(!readdirSync(place.folder).includes('none'), 'nothing is made')
})

test('on a Postgres, the command to run is printed, without the password', async (t) => {
  const place = await installation(t)
  const address = `postgres://me:${PASSWORD}@db.internal:5433/parley?sslmode=require&password=${PASSWORD}&max=3`
  const env = { DATABASE_URL: address }
  const backup = await place.parley(['backup', 'my backup'], { env })
  const restore = await place.parley(['restore', 'my backup'], { env })
  for (const { code, stdout, stderr } of [backup, restore]) {
    assert.deepEqual([code, stdout], [1, ''])
    assert.ok(!stderr.includes(PASSWORD), stderr)
    assert.ok(stderr.includes(`'postgres://me@db.internal:5433/parley?sslmode=require'`), stderr)
  }
  assert.match(backup.stderr, /^ {2}pg_dump .*--file='my backup' /m)
  assert.match(restore.stderr, /^ {2}pg_restore .* 'my backup'$/m)
})

test('a full disk is reported, and nothing is left on it', {
  skip: canLimit ? false : 'this system has no `ulimit -f`',
}, async (t) => {
  const place = await installation(t)
  await place.key('ada')
  mkdirSync(join(place.folder, 'backups'))
  const command = `ulimit -S -f ${LIMIT_BLOCKS}; exec "${process.execPath}" "${MAIN}" backup backups/one.db`
  const program = place.spawn(['sh', '-c', command])
  assert.deepEqual(await program.exited, { code: 1, signal: null })
  assert.match(
    program.stderr,
    /^\S+parley\.db cannot be copied into backups: .*Check the disk, its free space/,
  )
  assert.deepEqual(readdirSync(join(place.folder, 'backups')), [])
})
