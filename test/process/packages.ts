/** Packs and installs packages with npm, for tests of what users get. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Ended, Installation, ProgramOptions } from './server-process.ts'

export interface Packed {
  readonly file: string
  readonly paths: readonly string[]
}

export async function succeed(
  place: Installation,
  command: readonly string[],
  options: ProgramOptions = {},
): Promise<Ended> {
  const ended = await place.spawn(command, options).ended()
  assert.equal(ended.code, 0, `${command.join(' ')}: ${ended.stdout}\n${ended.stderr}`)
  return ended
}

/** @param what the arguments of `npm pack` that name the package, relative to `cwd` */
export async function pack(place: Installation, what: readonly string[], cwd: string): Promise<Packed> {
  const command = ['npm', 'pack', ...what, '--pack-destination', place.folder, '--json']
  const { stdout } = await succeed(place, command, { cwd })
  const { filename, files } = onlyOne(JSON.parse(stdout))
  return { file: join(place.folder, filename), paths: files.map(({ path }) => path) }
}

interface NpmReport {
  readonly filename: string
  readonly files: readonly { readonly path: string }[]
}

/** npm 12 reports an object with packages by name. Earlier versions report an array. */
function onlyOne(said: Readonly<Record<string, NpmReport>> | readonly NpmReport[]): NpmReport {
  const [only] = Object.values(said)
  assert.ok(only)
  return only
}

/** The program must be installed on this machine, not by a package of this project. */
export function onThePath(name: string): string | undefined {
  return ownPath()
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path))
}

export function ownPath(): readonly string[] {
  return (process.env.PATH ?? '').split(delimiter).filter((path) => !path.includes('node_modules'))
}
