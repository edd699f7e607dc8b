/** Generates the list of source files with what each one does, from their first comments. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, posix, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const HEADER = /^(?:#!.*\n)?\/\*\*([\s\S]*?)\*\//

/** Returns the text of docs/internals/files.md. */
export function filesPage(): string {
  const paths = globSync('{src,client/src,json-schema/src}/**/*.ts', { cwd: ROOT })
    .map((path) => path.replaceAll(sep, '/'))
    .filter((path) => !path.endsWith('.test.ts'))
    .toSorted()
  const folders = Map.groupBy(paths, (path) => dirname(path))
  const sections = [...folders].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([folder, files]) => {
    const lines = files.map((path) => `- \`${posix.basename(path, '.ts')}\`: ${jobOf(path)}`)
    return `## ${folder}\n\n${lines.join('\n')}\n`
  })
  return `# What each file does

Made from the first comment of each file by \`npm run docs\`. [ARCHITECTURE.md](../../ARCHITECTURE.md) describes how the folders work together.

${sections.join('\n')}`
}

/** Returns the first paragraph of the first comment, as one line. */
function jobOf(path: string): string {
  const [, header = ''] = HEADER.exec(readFileSync(`${ROOT}${path}`, 'utf8')) ?? []
  const [paragraph = ''] = header.replace(/^ ?\* ?/gm, '').trim().split(/\n\s*\n/)
  return paragraph.replace(/\s+/g, ' ')
}
