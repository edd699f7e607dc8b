/**
 * Tests that every test of the HTTP API runs on each store (some only in the long form), that each suite uses the store in its
 * name, and that no suite starts a server before its first test.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { onEachStore } from './on-each-store.ts'
import { startParley, temporaryFolder } from './parley.ts'

const TESTS = fileURLToPath(new URL('.', import.meta.url))

/** These test files must run on each store. A dashboard file takes seconds, so only those about stored data are among them. */
const ON_EACH_STORE = [
  'client/**/*.test.ts',
  'http/**/*.test.ts',
  'hostile/**/*.test.ts',
  'callbacks.test.ts',
  'browser/{live,jobs,admin-actions}.test.ts',
]

/** The results of these files do not depend on the store, so they run on SQLite only, except in the long form. */
const ON_ANY_STORE = [
  'client/**/*.test.ts',
  'http/{broken-requests,documents,fields,length-limits,schemas,model-roles,long-bodies}.test.ts',
]

test('no test file declares tests for one store only', () => {
  const files = globSync(ON_EACH_STORE, { cwd: TESTS })
  assert.ok(files.length > 10)
  const any = new Set(globSync(ON_ANY_STORE, { cwd: TESTS }))
  const wrong = files.filter((file) => {
    const text = readFileSync(join(TESTS, file), 'utf8')
    const declares = any.has(file) ? /^onAnyStore\(/m : /^onEachStore\(/m
    return !declares.test(text) || /^(test|describe)\(/m.test(text)
  })
  assert.deepEqual(wrong, [], 'declare their tests within onEachStore')
})

test('no suite of HTTP tests starts a server while it is declared', () => {
  const files = globSync('{client,hostile,http,v1}/**/*.ts', { cwd: TESTS })
  const wrong = files.filter((file) => /\(\s*\{ after \}/.test(readFileSync(join(TESTS, file), 'utf8')))
  // The tests of the walk are its steps, so a name pattern cannot select some of them.
  assert.deepEqual(wrong, ['http/openapi-walk.test.ts'], 'use shareStage or beforeTests')
})

const databases = new Map<string, boolean>()

onEachStore(() => {
  test('a Parley uses the store of its suite, and so does the next one on the same folder', async (t) => {
    const folder = await temporaryFolder(t)
    const first = await startParley(t, { folder })
    databases.set(t.fullName.split(' > ').at(-2) ?? '', first.store.shared)
    await first.key('user_max', 'somebody')
    await first.stop()
    const [next, other] = [await startParley(t, { folder }), await startParley(t)]
    assert.equal(next.store.shared, first.store.shared)
    assert.deepEqual(await Promise.all([next, other].map(({ store }) => store.hasAccounts())), [true, false])
  })
})

test('the suites are named after their stores', () => {
  const selected = process.env.TEST_STORE
  const all = { sqlite: ['on SQLite', false], postgres: ['on Postgres', true] } as const
  const expected = Object.entries(all).filter(([name]) => !selected || name === selected)
  assert.deepEqual(
    [...databases],
    expected.map(([, entry]) => [...entry]),
  )
})
