/** Tests `parley scrub`, and deletions that cannot be scrubbed at once, because on SQLite a reader holds the log. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import test from 'node:test'
import { idsOf } from './caller.ts'
import { installation } from './server-process.ts'

test('while another process reads, a deletion says that the disk is not scrubbed, and how to continue', {
  timeout: 60_000,
}, async (t) => {
  const place = await installation(t)
  const server = await place.start()
  const caller = server.caller(await server.firstKey())
  const [id = ''] = idsOf(await caller.single('CANARY-of-a-prompt'))
  const reader = new DatabaseSync(place.database)
  t.after(() => reader.close())
  reader.exec('begin')
  reader.prepare('select count(*) from jobs').get()

  const deleted = await place.parley(['jobs', 'delete', id])
  assert.deepEqual([deleted.code, deleted.stdout], [1, ''])
  assert.match(
    deleted.stderr,
    /was deleted, but not scrubbed from the disk: another process reads .*parley scrub/,
  )
  assert.equal((await caller.read(id)).status, 404)
  const held = await place.parley(['scrub'])
  assert.deepEqual([held.code, held.stdout], [1, ''])
  assert.match(held.stderr, /^The database was not scrubbed: another process reads .*run `parley scrub`/)

  reader.exec('rollback')
  const scrubbed = await place.parley(['scrub'])
  assert.deepEqual(
    [scrubbed.code, scrubbed.stdout],
    [
      0,
      'The database is scrubbed: a SQLite file no longer contains deleted data; Postgres overwrites deleted rows over time.\n',
    ],
  )
  const acts = JSON.parse((await place.parley(['audit', '--json'])).stdout) as { outcome: string }[]
  assert.equal(acts[0]?.outcome, 'scrubbed')
  assert.match(acts[1]?.outcome ?? '', /^failed: another process reads/)
  assert.match(acts[2]?.outcome ?? '', /^deleted, not scrubbed: another process reads/)
})
