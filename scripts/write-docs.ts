/** `npm run docs` writes the documents that are generated from the code. A test fails if they are out of date. */
import { writeFileSync } from 'node:fs'
import { type Parley, startParley } from '../test/parley.ts'
import { type ApiDocument, apiPage } from './api-page.ts'
import { filesPage } from './files-page.ts'
import { limitsPage } from './limits-page.ts'
import { prometheusRule } from './prometheus-rule.ts'
import { settingsJsonSchema, settingsPage } from './settings-page.ts'

const root = new URL('../', import.meta.url)
writeFileSync(new URL('docs/settings.md', root), settingsPage())
writeFileSync(new URL('docs/limits.md', root), limitsPage())
writeFileSync(new URL('docs/internals/files.md', root), filesPage())
writeFileSync(new URL('parley.schema.json', root), settingsJsonSchema())
writeFileSync(new URL('deploy/kubernetes/monitoring/prometheus-rule.yaml', root), prometheusRule())

const ends: (() => unknown)[] = []
const parley = await startParley({ after: (end) => void ends.push(end) })
const read = async ({ get }: Parley, path: string): Promise<ApiDocument> => (await get(path)).body
writeFileSync(
  new URL('docs/api.md', root),
  apiPage(await read(parley, '/openapi.json'), await read(parley, '/v1/openapi.json')),
)
for (const end of ends.toReversed()) await end()
