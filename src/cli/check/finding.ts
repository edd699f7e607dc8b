/** The findings of `parley check`, and how they are printed. */
import { printable, printLine } from '../output.ts'

export interface Finding {
  readonly ok: boolean
  /** True if it works but could be better, or could not be verified. */
  readonly warns?: boolean
  /** `configuration`, `database`, `models`, `calls`, `upstream NAME` or `target UPSTREAM/MODEL`. */
  readonly about: string
  /** Which aspect of an upstream or a target was checked. */
  readonly check?: 'reachable' | 'key' | 'model' | 'answer' | 'roles' | 'json' | 'concurrency'
  readonly says: string
  /** What to change. */
  readonly fix?: string
}

export function asJson({ ok, warns = false, about, check = null, says, fix = null }: FindingFields) {
  return { ok, warns, about, check, says, fix }
}

interface FindingFields extends Omit<Finding, 'check' | 'fix'> {
  readonly check?: Finding['check'] | null
  readonly fix?: string | null
}

export function printFinding({ ok, warns, about, says, fix }: Finding): void {
  const mark = ok ? (warns ? 'note ' : 'ok   ') : 'WRONG'
  printLine(`${mark} ${about}: ${printable(says)}`)
  if (fix !== undefined) printLine(`      To do: ${printable(fix)}`)
}
