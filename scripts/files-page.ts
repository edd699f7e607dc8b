/** Generates the list of source files with what each one does, from their first comments. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, posix, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const HEADER = /^(?:#!.*\n)?\/\*\*([\s\S]*?)\*\//

interface SourceFile {
  readonly path: string
  /** This is the first paragraph of the first comment, as one line. */
  readonly job: string
}

export function sourceFiles(): readonly SourceFile[] {
  return globSync('{src,client/src,json-schema/src}/**/*.ts', { cwd: ROOT })
    .map((path) => path.replaceAll(sep, '/'))
    .filter((path) => !path.endsWith('.test.ts'))
    .toSorted()
    .map((path) => ({ path, job: jobOf(path) }))
}

/** Returns the text of docs/internals/files.md. */
export function filesPage(): string {
  const byFolder = Map.groupBy(sourceFiles(), ({ path }) => dirname(path))
  const folders = [...byFolder].toSorted(([a], [b]) => (a < b ? -1 : 1))
  const links = folders.map(([folder]) => `[${folder}](#${folder.replaceAll('/', '')})`)
  const sections = folders.map(([folder, files]) => `## ${folder}\n\n${files.map(lineOf).join('\n')}\n`)
  return `# What each file does

Made by \`npm run docs\` from the first paragraph of each file's first comment. Further paragraphs are only in the file, often the exact rules. [ARCHITECTURE.md](../../ARCHITECTURE.md) describes how the folders work together.

Folders: ${links.join(', ')}

${sections.join('\n')}`
}

function lineOf({ path, job }: SourceFile): string {
  return `- [\`${posix.basename(path, '.ts')}\`](../../${path}): ${job}`
}

function jobOf(path: string): string {
  const [, header = ''] = HEADER.exec(readFileSync(`${ROOT}${path}`, 'utf8')) ?? []
  const text = header.replace(/^ ?\* ?/gm, '').trim()
  const [paragraph = ''] = text.split(/\n\s*\n/)
  return paragraph.replace(/\s+/g, ' ')
}
