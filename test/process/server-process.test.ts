/** Tests that test files leave no programs behind, even if a file fails before its hooks can run. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import test from 'node:test'
import { eventually } from '../support/eventually.ts'

const HELPER = new URL('./server-process.ts', import.meta.url).href
const FILE = `
  import { after } from 'node:test'
  import { installation } from '${HELPER}'
  const place = await installation({ after })
  const { program } = await place.start()
  console.log('pid', program.pid)
  await place.start({ args: ['--no-such-option'] })`

test('a failed start at the top of a file ends the server that was started before', async () => {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const stdio = ['ignore', 'pipe', 'ignore'] as const
  const file = spawn(process.execPath, ['--input-type=module', '-e', FILE], { env, stdio: [...stdio] })
  const [printed, [code]] = await Promise.all([text(file.stdout), once(file, 'exit')])
  assert.notEqual(code, 0)
  const pid = Number(/^pid (\d+)$/m.exec(printed)?.[1])
  assert.ok(pid > 0, printed)
  try {
    await eventually(
      async () => isRunning(pid),
      (running) => !running,
      { withinMs: 10_000 },
    )
  } finally {
    if (isRunning(pid)) process.kill(pid, 'SIGKILL')
  }
})

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
