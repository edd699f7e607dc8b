/** Defines the findings of `parley check`, and prints them. */
import { printable, printLine } from '../input-output.ts'

export interface Finding {
  readonly ok: boolean
  /** `warns` is true if the subject works but could be better, or if it could not be verified. */
  readonly warns?: boolean
  /** `about` names the subject: `configuration`, `database`, `models`, `calls`, `upstream NAME` or `target UPSTREAM/MODEL`. */
  readonly about: string
  readonly check?: 'reachable' | 'key' | 'model' | 'answer' | 'roles' | 'json' | 'concurrency'
  readonly says: string
  readonly fix?: string
}

export function asJson({ ok, warns = false, about, check, says, fix }: Finding) {
  return { ok, warns, about, check: check ?? null, says, fix: fix ?? null }
}

export function printFinding({ ok, warns, about, says, fix }: Finding): void {
  const mark = ok ? (warns ? 'note ' : 'ok   ') : 'WRONG'
  printLine(`${mark} ${about}: ${printable(says)}`)
  if (fix !== undefined) printLine(`      To do: ${printable(fix)}`)
}
