/** Finds out how many files a process may open here. Each connection needs one. */
import { spawnSync } from 'node:child_process'

const ENOUGH = 100_000

export function openFilesAllowed(): number {
  const { stdout } = spawnSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })
  const limit = Number(stdout.trim())
  return Number.isFinite(limit) ? Math.min(limit, ENOUGH) : ENOUGH
}
