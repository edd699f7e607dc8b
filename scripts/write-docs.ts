/** `npm run docs`: writes the documents that are generated from the code. A test fails if they are out of date. */
import { writeFileSync } from 'node:fs'
import { limitsPage } from '../src/app/limits.ts'
import { settingsJsonSchema, settingsPage } from '../src/config/document.ts'
import { prometheusRule } from './prometheus-rule.ts'

const root = new URL('../', import.meta.url)
writeFileSync(new URL('docs/settings.md', root), settingsPage())
writeFileSync(new URL('docs/limits.md', root), limitsPage())
writeFileSync(new URL('parley.schema.json', root), settingsJsonSchema())
writeFileSync(new URL('deploy/kubernetes/monitoring/prometheus-rule.yaml', root), prometheusRule())
