/** Tests that the program and package.json require the same versions of Node. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { nodeProblem } from './node-version.ts'

test('it runs on the lines that were tried, from their first good one on', () => {
  for (const good of ['24.16.0', '24.21.3', '26.1.0', '26.10.0', '27.0.0', '30.2.1']) {
    assert.equal(nodeProblem(good), null, good)
  }
})

test('it refuses any other, and says what is needed and what there is', () => {
  for (const bad of ['8.17.0', '20.20.2', '22.22.0', '24.15.9', '25.9.0', '26.0.0']) {
    assert.equal(nodeProblem(bad), `Parley needs Node 24.16, 26.1 or newer; this is ${bad}.`, bad)
  }
})

test('npm reads the same from package.json', () => {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  const { engines } = JSON.parse(manifest) as { engines: { node: string } }
  assert.equal(engines.node, '^24.16.0 || >=26.1.0')
})
