/**
 * Tests that there is one server per database file and per port: a second server exits with an explanation, and the first one
 * continues.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { installation, MAIN } from './server-process.ts'

const timeout = 60_000

test('a second server on the same file is refused, and the first continues', { timeout }, async (t) => {
  const place = await installation(t)
  const first = await place.start()
  const caller = first.caller(await first.firstKey())
  for (const _ of [1, 2]) {
    const { code, stdout, stderr } = await place.parley(['serve'])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(
      stderr,
      /^Another Parley server is using .*parley\.db\. Stop it first, or .*DATABASE_URL\.\n$/,
    )
    assert.equal((await caller.single('Still here?')).status, 200)
  }
  await first.crash()
  // The lock ends with the process that holds it, even if that was killed.
  const next = await place.start()
  assert.equal((await next.caller(await first.firstKey()).single('Hello')).status, 200)
})

test('of servers started together on a new file exactly one serves', { timeout }, async (t) => {
  const place = await installation(t)
  const programs = [1, 2, 3].map(() => place.spawn([process.execPath, MAIN, 'serve']))
  const outcomes = await Promise.allSettled(programs.map((program) => program.line(/listening on .+\n/)))
  assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
  for (const [index, { status }] of outcomes.entries()) {
    const program = programs[index]
    if (!program || status === 'fulfilled') continue
    assert.deepEqual(await program.exited, { code: 1, signal: null })
    assert.match(program.stderr, /Another Parley server is using/)
  }
})

test('a port in use is reported, and nothing is left behind', { timeout }, async (t) => {
  const first = await (await installation(t)).start()
  const { port } = new URL(first.url)
  const place = await installation(t)
  const { code, stdout, stderr } = await place.parley(['serve'], { env: { PORT: port } })
  assert.deepEqual([code, stdout], [1, ''])
  assert.match(stderr, new RegExp(`Port ${port} on 127\\.0\\.0\\.1 is in use\\. .*PORT`))
  assert.equal((await first.caller(await first.firstKey()).single('Hello')).status, 200)
})
