/**
 * Tests that a log that cannot be written, for example because the disk is full, stops neither the service nor its shutdown.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import test from 'node:test'
import { installation, MAIN } from './server-process.ts'

const skip = existsSync('/dev/full') ? false : 'this system has no /dev/full'

test('jobs are accepted, run and answered though no line of the log can be written', { skip }, async (t) => {
  const place = await installation(t)
  const server = await place.startAs(['sh', '-c', `exec "${process.execPath}" "${MAIN}" serve 2>/dev/full`])
  const caller = server.caller(await server.firstKey())
  // More lines than the log buffers before it writes.
  for (let asked = 0; asked < 400; asked++) {
    const { status, text } = await caller.single(`job ${asked}`)
    assert.equal(status, 200, text)
  }
  assert.equal((await fetch(`${server.url}/readyz`)).status, 200)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
})
