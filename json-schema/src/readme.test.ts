/** Runs the example in the README, which contains assertions. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'

const FOLDER = dirname(import.meta.dirname)

test('the example in the README runs', () => {
  const [, example = ''] = /```ts\n(.*?)```/s.exec(readFileSync(join(FOLDER, 'README.md'), 'utf8')) ?? []
  assert.match(example, /from 'parley-json-schema'/)
  const args = ['--input-type=module-typescript', '--eval', example]
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: FOLDER, encoding: 'utf8' })
  assert.equal(status, 0, stderr)
})
