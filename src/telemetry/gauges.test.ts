/**
 * Tests gauges whose queries fail or hang: no scrape waits for long, and a hanging query is not repeated. Also tests the gauges
 * of a file's disk.
 */
import assert from 'node:assert/strict'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { temporaryFolder } from '../../test/parley.ts'
import { diskOf, TIMEOUT_MS, withTimeout } from './gauges.ts'

test('an answer is shared by concurrent calls, and the next call asks again', async () => {
  const clock = new FakeClock()
  let asked = 0
  const ask = withTimeout(clock, async () => ++asked)
  assert.deepEqual(await Promise.all([ask(), ask()]), [1, 1])
  assert.equal(await ask(), 2)
  assert.deepEqual(clock.pending(), [])
})

test('a failure gives null, and the next call asks again', async () => {
  let asked = 0
  const ask = withTimeout(new FakeClock(), async () => {
    asked += 1
    if (asked === 1) throw new Error('unreachable')
    return 'back'
  })
  assert.equal(await ask(), null)
  assert.equal(await ask(), 'back')
})

test('a request that hangs times out, and is not repeated before it has ended', async () => {
  const clock = new FakeClock()
  const first = Promise.withResolvers<string>()
  let asked = 0
  const ask = withTimeout(clock, () => {
    asked += 1
    return asked === 1 ? first.promise : Promise.resolve('soon')
  })
  const early = ask()
  clock.advance(TIMEOUT_MS - 1)
  const late = ask()
  clock.advance(1)
  assert.equal(await early, null)
  first.resolve('at last')
  assert.equal(await late, 'at last')
  assert.equal(asked, 1)
  assert.equal(await ask(), 'soon')
})

test('the disk of a linked file is that of the file, not that of the link', {
  skip: process.platform === 'linux' ? false : 'the other disk is /proc',
}, async (t) => {
  const link = join(await temporaryFolder(t), 'parley.db')
  await symlink('/proc/version', link)
  assert.deepEqual(await diskOf(link), { freeBytes: 0, sizeBytes: 0 })
})
