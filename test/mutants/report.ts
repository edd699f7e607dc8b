/**
 * Writes the report: a line of JSON for each mutant that has run, so that a later run continues the report, and a table by
 * folder.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import type { Mutant } from './choose.ts'
import type { Outcome } from './try-mutant.ts'

export interface Entry extends Omit<Mutant, 'text'>, Outcome {
  /** Says why no test can notice the mutant. A person adds this to a survivor by hand. */
  readonly equivalent?: string
}

export class Report {
  readonly #file: string | undefined
  readonly #entries = new Map<string, Entry>()

  constructor(file: string | undefined) {
    this.#file = file
    if (file === undefined || !existsSync(file)) return
    // The last line may have been cut off by a crash.
    for (const line of readFileSync(file, 'utf8').split('\n').slice(0, -1)) {
      const entry = JSON.parse(line) as Entry
      this.#entries.set(entry.id, entry)
    }
  }

  entryOf({ id }: Mutant): Entry | undefined {
    return this.#entries.get(id)
  }

  add({ text: _, ...mutant }: Mutant, outcome: Outcome): Entry {
    const entry = { ...mutant, ...outcome }
    this.#entries.set(mutant.id, entry)
    if (this.#file !== undefined) appendFileSync(this.#file, `${JSON.stringify(entry)}\n`)
    return entry
  }
}

/** The last column is the share of mutants that were found, among those that compile and are not equivalent to the source. */
export function tableOf(entries: readonly Entry[]): string {
  const byFolder = Map.groupBy(entries, ({ file }) => file.split('/').slice(0, 2).join('/'))
  const rows = [...byFolder].toSorted(([a], [b]) => a.localeCompare(b))
  const lines = [...rows, ['all', entries] as const].map(([folder, some]) => {
    const count = (result: Outcome['result']) => some.filter((entry) => entry.result === result).length
    const equivalent = some.filter((entry) => entry.result === 'survived' && entry.equivalent).length
    const [found, survived] = [count('found'), count('survived') - equivalent]
    const share = found + survived === 0 ? '' : `${Math.round((100 * found) / (found + survived))}%`
    return `| ${folder} | ${found} | ${survived} | ${equivalent} | ${count('invalid')} | ${share} |`
  })
  const head =
    '| folder | found | survived | equivalent | invalid | found of the valid |\n|---|---|---|---|---|---|'
  return [head, ...lines].join('\n')
}

export function describe(entry: Entry): string {
  const { id, file, line, operator, result, stage, by, ran, seconds, equivalent } = entry
  const how = stage ? `by ${stage}: ${by}` : ran.length > 0 ? `after ${ran.join(', ')}` : ''
  const why = equivalent ? `, equivalent: ${equivalent}` : ''
  return `${id} ${result} ${how}${why} (${operator}, ${file}:${line}, ${seconds} s)`
}
