/** Runs one mutant through the stages until a test fails. */
import type { Mutant } from './choose.ts'
import { compiles, runTests } from './run-tests.ts'
import type { Stage, TestPlan } from './test-plan.ts'
import type { TreeCopy } from './tree-copy.ts'

export interface Outcome {
  /** A mutant that does not compile is invalid, because nobody could commit it. */
  readonly result: 'found' | 'survived' | 'invalid'
  readonly ran: readonly string[]
  readonly stage?: Stage['name']
  readonly by?: string
  readonly seconds: number
}

export interface TryOptions {
  readonly plan: TestPlan
  readonly copy: TreeCopy
  readonly idleMs: number
  readonly environment: Readonly<Record<string, string>>
  /** Says whether a file passes without a mutant. Files that fail are not used. All copies share this map. */
  readonly known: Map<string, boolean>
  readonly print: (text: string) => void
}

export async function tryMutant(mutant: Mutant, options: TryOptions): Promise<Outcome> {
  const { plan, copy, idleMs } = options
  const startedMs = performance.now()
  const environment = { ...options.environment, TEST_STORE: storeOf(mutant.file) }
  const ran: string[] = []
  const outcome = (found: Omit<Outcome, 'ran' | 'seconds'>): Outcome => {
    return { ...found, ran, seconds: Math.round((performance.now() - startedMs) / 100) / 10 }
  }
  try {
    copy.replace(mutant.file, mutant.text)
    if (!(await compiles(copy))) return outcome({ result: 'invalid' })
    for (const { name, files } of plan.stagesFor(mutant.file)) {
      copy.restore(mutant.file)
      const usable = await usableFiles(files, environment, options)
      if (usable.length === 0) continue
      copy.replace(mutant.file, mutant.text)
      ran.push(`${name} (${usable.length})`)
      const { failure } = await runTests(copy, { files: usable, environment, idleMs, untilFailure: true })
      if (failure !== null) return outcome({ result: 'found', stage: name, by: failure })
    }
    return outcome({ result: 'survived' })
  } finally {
    copy.restore(mutant.file)
  }
}

/** Tests of a store use their own store in any case. */
function storeOf(file: string): string {
  return file.includes('/postgres/') ? 'postgres' : 'sqlite'
}

/** A file that fails without a mutant would find every mutant. So each file first runs once on the unchanged sources. */
async function usableFiles(
  files: readonly string[],
  environment: Readonly<Record<string, string>>,
  { copy, idleMs, known, print }: TryOptions,
): Promise<readonly string[]> {
  const keyOf = (file: string) => `${environment.TEST_STORE} ${file}`
  const unknown = files.filter((file) => !known.has(keyOf(file)))
  if (unknown.length > 0) {
    const { passed, failure } = await runTests(copy, {
      files: unknown,
      environment,
      idleMs,
      untilFailure: false,
    })
    for (const file of unknown) known.set(keyOf(file), passed.includes(file))
    const failing = unknown.filter((file) => !passed.includes(file))
    if (failing.length > 0)
      print(`Not used, because it fails without a mutant (${failure}): ${failing.join(', ')}`)
  }
  return files.filter((file) => known.get(keyOf(file)))
}
