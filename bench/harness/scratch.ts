/** Creates temporary folders. They are removed when the benchmark exits. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const made = new Set<string>()

process.on('exit', () => {
  for (const folder of made) removeScratch(folder)
})

export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'parley-bench-'))
  made.add(folder)
  return folder
}

export function removeScratch(folder: string): void {
  made.delete(folder)
  rmSync(folder, { recursive: true, force: true })
}
