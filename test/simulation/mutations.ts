/**
 * Reads deliberate defects of production code. The simulation must detect all of them. `mutations.diff` lists them by file:
 * the lines of each defect that begin with `-` are a text that the file contains exactly once, and those with `+` replace the
 * text.
 */
import { readFileSync } from 'node:fs'

export interface Mutation {
  readonly what: string
  readonly file: string
  readonly text: string
  readonly by: string
  /** Only this real store has the defect. The reference store does not. */
  readonly store: string | undefined
  /** The defect repeats the bugs of these plans in `found/`, so it must break their histories. */
  readonly plans: readonly string[]
}

const LIST = readFileSync(new URL('mutations.diff', import.meta.url), 'utf8')

export const MUTATIONS: readonly Mutation[] = LIST.split(/^=== /m).flatMap((ofFile) => {
  const [file = '', ...defects] = ofFile.trimEnd().split(/\n# /)
  return defects.map((defect): Mutation => {
    const [what = '', ...lines] = defect.split('\n')
    const after = (start: string) =>
      lines.filter((line) => line.startsWith(start)).map((line) => line.slice(start.length))
    const [text, by] = [after('-').join('\n'), after('+').join('\n')]
    return { what, file, text, by, store: after('store: ')[0], plans: after('plan: ') }
  })
})
