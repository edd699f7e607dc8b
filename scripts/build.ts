/**
 * `npm run build`, which `npm pack` runs: what the package carries, in `dist/`. The sources run as they are, but Node strips
 * no types below `node_modules`, so there each is JavaScript, in the same places. Types are not checked: `npm run types`.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = new URL('../', import.meta.url)
const dist = new URL('dist/', root)
const STYLE = 'src/dashboard/page/style.css'

rmSync(dist, { recursive: true, force: true })
const tsc = fileURLToPath(new URL('node_modules/typescript/bin/tsc', root))
const project = fileURLToPath(new URL('tsconfig.build.json', root))
const { status, error } = spawnSync(process.execPath, [tsc, '-p', project], { stdio: 'inherit' })
if (error) throw error
if (status !== 0) process.exit(status ?? 1)
cpSync(new URL(STYLE, root), new URL(STYLE, dist))
