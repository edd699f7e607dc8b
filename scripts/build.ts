/**
 * `npm run build`, which `npm pack` runs: writes the contents of the package to `dist/`. The sources run as they are, but Node
 * does not strip types below `node_modules`, so the package has JavaScript at the same paths, with the page's styles. It does
 * not check types: `npm run types` does.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = new URL('../', import.meta.url)
const dist = new URL('dist/', root)

rmSync(dist, { recursive: true, force: true })
const tsc = fileURLToPath(new URL('node_modules/typescript/bin/tsc', root))
const project = fileURLToPath(new URL('tsconfig.build.json', root))
const { status, error } = spawnSync(process.execPath, [tsc, '-p', project], { stdio: 'inherit' })
if (error) throw error
if (status !== 0) process.exit(status ?? 1)
const styles = readdirSync(new URL('src/', root), { recursive: true, encoding: 'utf8' })
for (const path of styles.filter((path) => path.endsWith('.css'))) {
  cpSync(new URL(`src/${path}`, root), new URL(`src/${path}`, dist))
}
