/**
 * `npm run build` writes the package that a release publishes to `dist/`, for `npm pack ./json-schema/dist`. In the clone, the
 * exports point to the sources. Node runs only JavaScript from packages, so the published exports differ.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const here = new URL('./', import.meta.url)
const dist = new URL('dist/', here)

rmSync(dist, { recursive: true, force: true })
const tsc = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', here))
const { status, error } = spawnSync(process.execPath, [tsc, '-p', fileURLToPath(here)], { stdio: 'inherit' })
if (error) throw error
if (status !== 0) process.exit(status ?? 1)

const {
  private: _,
  scripts: __,
  ...manifest
} = JSON.parse(readFileSync(new URL('package.json', here), 'utf8')) as Record<string, unknown>
const exports = { '.': { types: './index.d.ts', default: './index.js' } }
writeFileSync(new URL('package.json', dist), `${JSON.stringify({ ...manifest, exports }, null, 2)}\n`)
cpSync(new URL('README.md', here), new URL('README.md', dist))
cpSync(new URL('../LICENSE', here), new URL('LICENSE', dist))
