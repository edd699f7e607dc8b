/**
 * Decides which tests can find a mistake in a file, and in which order to run them. A test that does not load the file cannot
 * find it.
 */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, posix, sep } from 'node:path'
import { SOURCE_FOLDERS } from '../support/test-files.ts'

export interface Stage {
  readonly name: 'nearest tests' | 'contract' | 'simulation' | 'service'
  readonly files: readonly string[]
}

const CONTRACT = /^src\/store\/(sqlite\/sqlite|postgres\/postgres)-store\.test\.ts$/
/** These tests take minutes, and none of them is about one file. */
const SLOW = /^test\/(browser|counts|generators|hostile|long|nodes|process|upgrade)\//
const SIMULATION = 'test/simulation/simulation.test.ts'
/** These tests use most of the service, over HTTP, in about a minute. */
export const SERVICE: readonly string[] = [
  'test/http/creates.test.ts',
  'test/http/reads.test.ts',
  'test/http/waiting.test.ts',
  'test/http/idempotency.test.ts',
  'test/http/caps.test.ts',
  'test/http/budget-waits.test.ts',
  'test/http/costs.test.ts',
  'test/http/admin/records.test.ts',
  'test/http/fallbacks.test.ts',
  'test/http/answers.test.ts',
  'test/http/authentication.test.ts',
  'test/http/length-limits.test.ts',
  'test/http/own-jobs.test.ts',
  'test/http/metrics.test.ts',
  'test/http/callbacks.test.ts',
  'test/http/documents.test.ts',
  'test/http/long-bodies.test.ts',
  'test/http/tiers.test.ts',
  'test/http/operations.test.ts',
  'test/docs/api-page.test.ts',
  'test/http/openapi-walk.test.ts',
  'test/http/broken-requests.test.ts',
  'test/http/admin/access.test.ts',
  'test/v1/chat-completions.test.ts',
  'test/v1/files.test.ts',
  'test/callbacks.test.ts',
  'test/client/batches.test.ts',
  'test/client/creating.test.ts',
  'test/client/polling.test.ts',
  'test/client/retries.test.ts',
]
/** Captures the path of an import or of a thread's module. Captures nothing for imports of types, which load nothing. */
const IMPORT = /^(?:import|export) type .*|(?:from|import|URL)\(?\s*['"](\.[^'"]+|parley-json-schema)['"]/gm
const SCHEMAS = 'json-schema/src/index.ts'

export class TestPlan {
  readonly #imports: ReadonlyMap<string, readonly string[]>
  readonly #tests: readonly string[]

  constructor(root: string) {
    const patterns = [...SOURCE_FOLDERS, 'test'].map((folder) => `${folder}/**/*.ts`)
    const files = globSync(patterns, { cwd: root, exclude: ['**/node_modules/**'] }).map((file) =>
      file.replaceAll(sep, '/'),
    )
    this.#imports = new Map(
      files.map((file) => [file, importsIn(readFileSync(join(root, file), 'utf8'), file)]),
    )
    this.#tests = files.filter((file) => file.endsWith('.test.ts')).toSorted()
  }

  stagesFor(file: string): readonly Stage[] {
    const loading = this.#tests.filter((test) => this.#reaches(test).has(file))
    const isLater = (test: string) => CONTRACT.test(test) || test === SIMULATION || SERVICE.includes(test)
    const own = file.replace(/\.ts$/, '.test.ts')
    const importing = loading.filter((test) => this.#imports.get(test)?.includes(file))
    const near = loading.filter((test) => dirname(test) === dirname(file))
    const nearest = [...new Set([own, ...importing, ...near])].filter((test) => loading.includes(test))
    const stages: readonly Stage[] = [
      { name: 'nearest tests', files: nearest.filter((test) => !isLater(test) && !SLOW.test(test)) },
      { name: 'contract', files: loading.filter((test) => CONTRACT.test(test)) },
      { name: 'simulation', files: loading.filter((test) => test === SIMULATION) },
      { name: 'service', files: SERVICE.filter((test) => loading.includes(test)) },
    ]
    return stages.filter(({ files }) => files.length > 0)
  }

  #reaches(test: string): ReadonlySet<string> {
    const reached = new Set([test])
    for (const file of reached) for (const target of this.#imports.get(file) ?? []) reached.add(target)
    return reached
  }
}

function importsIn(text: string, file: string): readonly string[] {
  return [...text.matchAll(IMPORT)]
    .map(([, target]) => target)
    .filter((target) => target !== undefined)
    .map((target) => (target.startsWith('.') ? posix.join(posix.dirname(file), target) : SCHEMAS))
    .map((path) => (path.endsWith('.ts') ? path : `${path}.ts`))
}
