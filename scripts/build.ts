/**
 * `npm run build`, which `npm pack` runs: writes the contents of the package to `dist/`. The sources run as they are, but Node
 * does not strip types below `node_modules`, so the package has JavaScript at the same paths, with the page's styles. It does
 * not check types: `npm run types` does. The workspace that the sources import by its name is part of the package too, and is
 * imported by its path there, so that npm has nothing to install for it.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Of the workspace, at the end of a static import, or in a dynamic one. */
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
