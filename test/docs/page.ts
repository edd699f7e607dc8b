/**
 * Reads pages of the documents as a reader uses them: their blocks of code, the files that these contain, and a folder in which
 * they run.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CLONE, MAIN } from '../process/server-process.ts'

export interface Page {
  readonly text: string
  readonly blocks: readonly { readonly language: string; readonly body: string }[]
  /** Each of these blocks names its file in its first comment, such as `// receiver.ts`. */
  readonly files: ReadonlyMap<string, string>
  of(language: string): readonly string[]
}

/** @param path relative to `docs/` */
export function pageAt(path: string): Page {
  const text = readFileSync(join(CLONE, 'docs', path), 'utf8')
  const blocks = [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language = '', body = '']) => ({
    language,
    body,
  }))
  const files = blocks.flatMap(({ body }) => {
    const [, file] = /^(?:#!.*\n)?(?:\/\/|#) ([\w-]+(?:\.\w+)+|Caddyfile)[ \n]/.exec(body) ?? []
    return file === undefined ? [] : [[file, body] as const]
  })
  const of = (wanted: string) => blocks.filter(({ language }) => language === wanted).map(({ body }) => body)
  return { text, blocks, files: new Map(files), of }
}

/** Programs in the folder find the packages and the command of the clone. Returns the PATH for them. */
export async function makeProject(
  folder: string,
  files: Iterable<readonly [name: string, body: string]>,
  packages?: readonly string[],
): Promise<string> {
  const bin = join(folder, 'bin')
  await mkdir(bin, { recursive: true })
  const command = `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`
  await writeFile(join(bin, 'parley'), command, { mode: 0o755 })
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  const modules = join(folder, 'node_modules')
  if (packages === undefined) await symlink(join(CLONE, 'node_modules'), modules)
  else await mkdir(modules)
  for (const name of packages ?? []) await symlink(join(CLONE, 'node_modules', name), join(modules, name))
  for (const [name, body] of files) await writeFile(join(folder, name), body)
  return `${bin}:${process.env.PATH ?? ''}`
}

export function missing(...commands: readonly string[]): string | false {
  const absent = commands.filter((command) => spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0)
  return absent.length === 0 ? false : `${absent.join(', ')} not installed on this machine`
}
