/** What a `pattern` is once read: the words that its reader, its matcher and its example maker share. */
import type { CharSet } from './char-set.ts'

/** Lazy and greedy are one here: only whether there is a match is ever asked. */
export type PatternTree =
  | { readonly kind: 'set'; readonly set: CharSet }
  | { readonly kind: 'edge'; readonly edge: Edge }
  | { readonly kind: 'sequence'; readonly parts: readonly PatternTree[] }
  | { readonly kind: 'choice'; readonly options: readonly PatternTree[] }
  | { readonly kind: 'repeat'; readonly part: PatternTree; readonly least: number; readonly most: number }

/** `^`, `$`, `\b`, `\B`. */
export type Edge = 'start' | 'end' | 'word' | 'not-word'

/** Why a pattern is refused; caught by `readPattern`. */
export class PatternRefused extends Error {}

/** The text of a pattern, and how far it has been read. */
export interface PatternText {
  readonly text: string
  at: number
  depth: number
}
