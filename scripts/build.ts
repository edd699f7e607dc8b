/**
 * `npm run build`, which `npm pack` runs, writes the contents of the package to `dist/`. Node does not strip types below
 * `node_modules`, so the package has JavaScript at the same paths, with the page's styles. It does not check types: `npm run
 * types` does. The package contains the workspace that the sources import by its name, and imports it by its path, so that npm
 * has nothing to install for it.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Matches the workspace's name in static and dynamic imports. */
const IMPORT = /(\bfrom |\bimport\()'parley-json-schema'/g

const root = new URL('../', import.meta.url)
const dist = new URL('dist/', root)

rmSync(dist, { recursive: true, force: true })
const tsc = fileURLToPath(new URL('node_modules/typescript/bin/tsc', root))
const project = fileURLToPath(new URL('tsconfig.build.json', root))
const { status, error } = spawnSync(process.execPath, [tsc, '-p', project], { stdio: 'inherit' })
if (error) throw error
if (status !== 0) process.exit(status ?? 1)

const filesIn = (folder: URL, ending: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith(ending))
for (const path of filesIn(new URL('src/', root), '.css')) {
  cpSync(new URL(`src/${path}`, root), new URL(`src/${path}`, dist))
}
for (const path of filesIn(new URL('src/', dist), '.js')) {
  const file = new URL(`src/${path}`, dist)
  const entry = relative(`src/${path}/..`, 'json-schema/src/index.js').replaceAll('\\', '/')
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll(IMPORT, `$1'${entry}'`))
}
