/** Checks that docs/api.md, which `npm run docs` writes, matches the documents that a server shows. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { apiPage } from '../../scripts/api-page.ts'
import { startParley } from '../parley.ts'
import { CLONE } from '../process/server-process.ts'

test('docs/api.md is up to date (npm run docs)', async (t) => {
  const parley = await startParley(t)
  const [native, v1] = await Promise.all(
    ['/openapi.json', '/v1/openapi.json'].map((path) => parley.get(path)),
  )
  assert.equal(readFileSync(join(CLONE, 'docs/api.md'), 'utf8'), apiPage(native?.body, v1?.body))
})
