import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '../parley.ts'
import { compare, executedIn } from './compare-tests.ts'

const COMPARE = fileURLToPath(new URL('compare-tests.ts', import.meta.url))

/** A real run must report these tests, so they are source text. */
const TESTS = `
  import test, { describe } from 'node:test'
  test('outside', () => {})
  describe('test/some.test.ts', () => test('in a file', () => {}))
  for (const store of ['on SQLite', 'on Postgres']) describe(store, () => {
    test('a <b> & "c" > d', (t) => t.diagnostic('<testcase name="a figure"/>'))
    test('twice', () => {})
    test('twice', () => {})
    describe('a suite', () => test('inside', () => {}))
    test('skipped', { skip: 'because' }, () => {})
    test('failed', () => { throw new Error(']]> <testcase name="a message"/>') })
  })`

async function reportOf(t: { after(end: () => unknown): void }, tests: string): Promise<string> {
  const folder = await temporaryFolder(t)
  const [file, report] = [join(folder, 'some.test.mjs'), join(folder, 'report.xml')]
  writeFileSync(file, tests)
  // With this variable of the outer run, the inner run would report to it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const options = ['--test', '--test-reporter=junit', `--test-reporter-destination=${report}`]
  spawnSync(process.execPath, [...options, file], { env })
  return readFileSync(report, 'utf8')
}

test('tests are counted by the names of their suites and their store, without those that were skipped', async (t) => {
  const names = (prefix: string) => [
    [`${prefix}a <b> & "c" > d`, 1],
    [`${prefix}twice`, 2],
    [`${prefix}a suite > inside`, 1],
    [`${prefix}failed`, 1],
  ]
  const executed = executedIn(await reportOf(t, TESTS))
  assert.deepEqual(
    [...executed],
    [['outside', 1], ['in a file', 1], ...names(''), ...names('on Postgres > ')],
  )
})

test('a test counts as often as it is missing or new', () => {
  const before = new Map([...Object.entries({ same: 1, fewer: 3, gone: 2 })])
  const after = new Map([...Object.entries({ more: 2, same: 1, fewer: 1 })])
  assert.deepEqual(compare(before, after), {
    gone: ['fewer', 'fewer', 'gone', 'gone'],
    added: ['more', 'more'],
  })
})

test('the exit code says whether a test is gone, and each is listed', async (t) => {
  const folder = await temporaryFolder(t)
  const [before, after] = [join(folder, 'before.xml'), join(folder, 'after.xml')]
  writeFileSync(before, '<testsuites><testcase name="kept"/><testcase name="gone"/></testsuites>')
  writeFileSync(
    after,
    '<testsuites><testsuite name="on SQLite"><testcase name="kept"/></testsuite></testsuites>',
  )
  const run = (...paths: string[]) => spawnSync(process.execPath, [COMPARE, ...paths], { encoding: 'utf8' })
  const { status, stdout } = run(before, after)
  assert.deepEqual([status, stdout], [1, '- gone\n2 tests before, 1 after: 1 gone, 0 new\n'])
  const back = run(after, before)
  assert.deepEqual([back.status, back.stdout], [0, '+ gone\n1 tests before, 2 after: 0 gone, 1 new\n'])
  assert.equal(run(before).status, 2)
})
