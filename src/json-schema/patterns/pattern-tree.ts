/** The syntax tree of a `pattern`, produced by its reader, and used by its compiler and the example generator. */
import type { CharSet } from './char-set.ts'

/** Lazy and greedy repetitions are the same here: only whether there is a match matters, not which part matches. */
export type PatternTree =
  | { readonly kind: 'set'; readonly set: CharSet }
  | { readonly kind: 'assertion'; readonly assertion: Assertion }
  | { readonly kind: 'sequence'; readonly parts: readonly PatternTree[] }
  | { readonly kind: 'alternation'; readonly options: readonly PatternTree[] }
  | { readonly kind: 'repeat'; readonly part: PatternTree; readonly min: number; readonly max: number }

/** `^`, `$`, `\b`, `\B`. */
export type Assertion = 'start' | 'end' | 'word-boundary' | 'no-word-boundary'

/** Why a pattern is rejected; caught by `readPattern`. */
export class PatternRejected extends Error {}

/** The text of a pattern, and how far it has been read. */
export interface PatternCursor {
  readonly text: string
  at: number
  /** Groups that are open at this point. */
  depth: number
}
