/** Reads the sources of the project as text, for tests of style. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SRC = join(ROOT, 'src')
const CLIENT = join(ROOT, 'client/src')
const SCHEMAS = join(ROOT, 'json-schema/src')

export interface Source {
  /** The path is below the folder of sources, such as `job/job.ts`. */
  readonly path: string
  readonly text: string
  /** The files belong to the project and are relative to the same folder. `parley-json-schema` may be among them. */
  readonly imports: readonly string[]
}

export function sourcesIn(folder: string): readonly Source[] {
  return (
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      // The other job queues that the benchmarks compare are installed below this folder.
      .filter((path) => path.endsWith('.ts') && !path.includes('node_modules'))
      .map((path) => {
        const text = readFileSync(join(folder, path), 'utf8')
        const imports = [...text.matchAll(/(?:from|import|URL)\(? ?'(\.[^']+|parley-json-schema)'/g)].map(
          ([, target = '']) =>
            target.startsWith('.') ? relative(folder, resolve(folder, dirname(path), target)) : target,
        )
        return { path, text, imports }
      })
  )
}

export const sources = sourcesIn(SRC)
export const client = sourcesIn(CLIENT)
export const schemas = sourcesIn(SCHEMAS)
const isTest = ({ path }: Source) => path.endsWith('.test.ts')
export const program = sources.filter((source) => !isTest(source))
export const clientProgram = client.filter((source) => !isTest(source))
export const schemasProgram = schemas.filter((source) => !isTest(source))
