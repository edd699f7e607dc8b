/**
 * Tests that the log survives a pipe that is not read for a while, and a full disk. No test closes its file, because a writer
 * retries forever, and would write to the next file or connection that gets the same descriptor.
 */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { constants, existsSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { temporaryFolder } from '../../test/parley.ts'
import { LogWriter, MAX_KEPT } from './log-writer.ts'

const lostLine = (lines: number) => `${lines} lost\n`
const numbered = (count: number) =>
  Array.from({ length: count }, (_, index) => `line ${index} ${'é'.repeat(990)}\n`)

test('lines arrive whole and in order', async (t) => {
  const path = join(await temporaryFolder(t), 'log')
  const fd = openSync(path, 'w')
  const writer = new LogWriter(fd, lostLine)
  const lines = numbered(50)
  for (const line of lines) writer.write(line)
  writer.flush()
  assert.equal(readFileSync(path, 'utf8'), lines.join(''))
})

test('lines that a full pipe does not take are kept up to a limit, and a line reports how many were lost', async (t) => {
  const path = join(await temporaryFolder(t), 'pipe')
  if (spawnSync('mkfifo', [path]).status !== 0) return t.skip('this system has no mkfifo')
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  const writer = new LogWriter(fd, lostLine)
  const lines = numbered(MAX_KEPT / 1000 + 500)
  for (const line of lines) writer.write(line)
  const reader = spawn('cat', [path])
  t.after(() => reader.kill())
  let text = ''
  let after = 0
  for await (const part of reader.stdout.setEncoding('utf8')) {
    text += part
    // Before the first line that fits again, a line reports how many were lost.
    if (after === 0) writer.write('afterwards\n')
    after += 1
    if (/afterwards\n$/.test(text) && /\d+ lost\n/.test(text)) break
  }
  const [kept = '', lost, rest] = text.split(/^(\d+) lost\n/m)
  assert.equal(kept + lines.slice(lines.length - Number(lost)).join(''), lines.join(''))
  assert.ok(Number(lost) > 0)
  assert.equal(rest, 'afterwards\n')
})

test('a full disk neither throws nor delays the end of the process', {
  skip: existsSync('/dev/full') ? false : 'this system has no /dev/full',
}, () => {
  const fd = openSync('/dev/full', 'w')
  const writer = new LogWriter(fd, lostLine)
  for (const line of numbered(200)) writer.write(line)
  writer.flush()
})
