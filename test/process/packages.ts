/** Packages as npm makes and installs them, for the tests of what their users get. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Ended, Installation, ProgramOptions } from './server-process.ts'

export interface Packed {
  /** The tarball, in the installation's folder. */
  readonly file: string
  /** What was packed, by its path. */
  readonly paths: readonly string[]
}

/** Runs a command to its end, which must be a good one. */
export async function succeed(
  place: Installation,
  command: readonly string[],
  options: ProgramOptions = {},
): Promise<Ended> {
  const program = place.spawn(command, options)
  const exit = await program.exited
  assert.equal(exit.code, 0, `${command.join(' ')}: ${program.stdout}\n${program.stderr}`)
  return { ...exit, stdout: program.stdout, stderr: program.stderr }
}

/** @param what the arguments of `npm pack` that name the package, seen from `cwd` */
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

/** npm 12 tells of packages by their names, those before it one after the other. */
function onlyOne(said: Readonly<Record<string, NpmReport>> | readonly NpmReport[]): NpmReport {
  const [only] = Object.values(said)
  assert.ok(only)
  return only
}

/** A program of the machine's own, not one that a package of this project brings. */
export function onThePath(name: string): string | undefined {
  return ownPath()
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path))
}

/** The PATH of somebody who has not set it for this project. */
export function ownPath(): readonly string[] {
  return (process.env.PATH ?? '').split(delimiter).filter((path) => !path.includes('node_modules'))
}
