/**
 * Tests that accepted jobs are on the disk before the response. A kill cannot prove this, because the page cache survives the
 * process. So the test traces system calls: between the arrival of a create and its response, the server must write and sync
 * the log of the database.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'node:test'
import { idsOf, type Reply } from './caller.ts'
import { installation, MAIN } from './server-process.ts'

const CALLS = 'trace=read,readv,recvfrom,write,writev,sendto,sendmsg,pwrite64,pwritev,fdatasync,fsync'
const skip =
  spawnSync('strace', ['-e', 'trace=none', 'true']).status === 0
    ? false
    : 'strace is not installed, or may not trace here'

test('a create is synced to the disk before it is answered', { skip }, async (t) => {
  const place = await installation(t)
  const file = join(place.folder, 'trace')
  const server = await place.startAs([
    // With -D, the server is the child process of the test instead of the tracer's, so that it gets signals.
    ...['strace', '-D', '-f', '-y', '-s', '16384', '-e', CALLS, '-o', file],
    ...[process.execPath, MAIN, 'serve'],
  ])
  const caller = server.caller(await server.firstKey())
  const answers: [string, Reply][] = []
  for (const name of ['first', 'second', 'third']) {
    answers.push([`single-${name}`, await caller.single(`single-${name}`)])
    answers.push([`batch-${name}`, await caller.batch([`batch-${name}`, `batch-${name}`])])
  }
  await server.stop()

  const lines = (await readFile(file, 'utf8')).split('\n')
  for (const [marker, answer] of answers) {
    const [id = ''] = idsOf(answer)
    const arrived = lines.findIndex((line) => /\b(read|readv|recvfrom)\b/.test(line) && line.includes(marker))
    const logged = lines.findIndex(
      (line, at) => at > arrived && /pwrite/.test(line) && line.includes('-wal>') && line.includes(marker),
    )
    const synced = lines.findIndex((_, at) => at > logged && isSynced(lines, at))
    const answered = lines.findIndex(
      (line) =>
        /\b(write|writev|sendto|sendmsg)\(/.test(line) && /HTTP\/1\.1 20[02]/.test(line) && line.includes(id),
    )
    assert.ok(arrived >= 0, `${marker} was not seen to arrive`)
    assert.ok(answered >= 0, `the answer to ${marker} was not seen`)
    assert.ok(
      logged > arrived && logged < answered,
      `${marker} was answered before it was written to the log`,
    )
    assert.ok(synced > logged && synced < answered, `${marker} was answered before it was synced`)
  }
})

/** The sync of the log ends successfully at this line. It may have begun in an earlier line of the same thread. */
function isSynced(lines: readonly string[], at: number): boolean {
  const line = lines[at] ?? ''
  if (/\b(fdatasync|fsync)\(\d+<[^>]*-wal>\) += 0/.test(line)) return true
  const resumed = /^(\d+) +<\.\.\. (fdatasync|fsync) resumed>\) += 0/.exec(line)
  if (!resumed) return false
  const begun = lines.slice(0, at).findLast((earlier) => earlier.startsWith(`${resumed[1]} `))
  return begun?.includes('-wal>') ?? false
}
