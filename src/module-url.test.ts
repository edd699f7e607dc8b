/** Tests that threads find their modules both in the sources and in the compiled program. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { moduleURL } from './module-url.ts'

test('a module is looked for in the form that the asking one has', () => {
  assert.equal(moduleURL('./thread.ts', 'file:///a/src/store/x.ts').href, 'file:///a/src/store/thread.ts')
  assert.equal(
    moduleURL('../b/thread.ts', 'file:///a/dist/src/c/x.js').href,
    'file:///a/dist/src/b/thread.js',
  )
})
