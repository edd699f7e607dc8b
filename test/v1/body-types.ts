/** Checks recorded bodies against the types of OpenAI's own client. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A type such as `OpenAI.Model`, and a body that must have it. */
export type TypedBody = readonly [type: string, body: unknown]

const root = fileURLToPath(new URL('../..', import.meta.url))
const OPTIONS = [
  '--ignoreConfig',
  '--noEmit',
  '--strict',
  '--skipLibCheck',
  '--target',
  'es2024',
  '--module',
  'nodenext',
]

/**
 * Checks bodies as literals, so that an unknown field is also an error. Pass many bodies in one call, because the compiler takes
 * a second or more.
 */
export function assertTypes(bodies: readonly TypedBody[]): void {
  // The folder is below the clone, where the compiler finds the packages.
  const folder = mkdtempSync(join(root, 'node_modules/.cache-types-'))
  try {
    const lines = bodies.map(([type, body], at) => `export const b${at}: ${type} = ${JSON.stringify(body)}`)
    const file = join(folder, 'bodies.ts')
    writeFileSync(file, [`import type OpenAI from 'openai'`, ...lines].join('\n'))
    const { status, stdout, stderr } = spawnSync(join(root, 'node_modules/.bin/tsc'), [...OPTIONS, file], {
      encoding: 'utf8',
      cwd: folder,
    })
    assert.equal(status, 0, `${stdout}${stderr}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
