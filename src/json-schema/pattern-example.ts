/** Makes a text that a `pattern` should match, for instances; the caller verifies it, as edges are not looked at. */
import { type CharSet, contains, MAX_CODE_POINT } from './char-set.ts'
import type { PatternTree } from './pattern-tree.ts'
import type { Steps } from './steps.ts'

/** Tried first, in this order, wherever several characters fit. */
const PREFERRED = Array.from('aA1 -_.,@/:+#é中', (char) => char.codePointAt(0) ?? 0)

interface Making {
  readonly variant: number
  /** How many characters repetitions should add beyond what they must. */
  extra: number
  readonly steps: Steps
}

/**
 * `variant` turns through the alternatives of each choice; `extra` is spent by the first repetitions that may grow.
 * null when some class has no character that was found. Throws `StepsSpent`.
 */
export function exampleOf(tree: PatternTree, variant: number, extra: number, steps: Steps): string | null {
  return make(tree, { variant, extra, steps })
}

function make(tree: PatternTree, making: Making): string | null {
  making.steps.spend(1)
  switch (tree.kind) {
    case 'edge':
      return ''
    case 'set':
      return memberOf(tree.set, making.steps)
    case 'choice': {
      const option = tree.options[making.variant % tree.options.length]
      return option === undefined ? null : make(option, making)
    }
    case 'sequence': {
      let text = ''
      for (const part of tree.parts) {
        const made = make(part, making)
        if (made === null) return null
        text += made
      }
      return text
    }
    case 'repeat': {
      let text = ''
      for (let count = 0; count < tree.most; count++) {
        if (count >= tree.least && making.extra <= 0) break
        const made = make(tree.part, making)
        if (made === null) return null
        if (count >= tree.least) {
          if (made === '') break
          making.extra -= Array.from(made).length
        }
        text += made
      }
      return text
    }
  }
}

function memberOf(set: CharSet, steps: Steps): string | null {
  steps.spend(2 + set.properties.length)
  for (const codePoint of PREFERRED) if (contains(set, codePoint)) return String.fromCodePoint(codePoint)
  if (!set.negated && set.ranges[0] !== undefined) return String.fromCodePoint(set.ranges[0])
  for (let codePoint = 0; codePoint <= MAX_CODE_POINT; codePoint += codePoint < 0x3000 ? 1 : 0x101) {
    steps.spend(1)
    if (contains(set, codePoint)) return String.fromCodePoint(codePoint)
  }
  return null
}
