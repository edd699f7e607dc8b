/**
 * Counts the tokens of texts, as a task of the CPU pool. Long runs without a break make the tokenizer slow, so it must not run
 * on the event loop.
 */

/**
 * The tokenizer takes quadratic time for runs without a break, so text is counted in pieces of this many characters. Each cut
 * can split a token, so the count may be slightly too high.
 */
const PIECE = 1024
/** Text that looks like a special token is counted as ordinary text. By default, the tokenizer would throw. */
const AS_TEXT = { disallowedSpecial: new Set<string>() }

export interface CountTokens {
  /** Each text is the part between the quotes of a JSON string. */
  readonly jsonTexts: readonly string[]
  readonly enough: number
}

export interface CountedTokens {
  readonly tokens: number
  readonly isComplete: boolean
}

type Tokenizer = typeof import('gpt-tokenizer/encoding/o200k_base')

/** The tokenizer is loaded at the first count, because its tables take tens of megabytes in each thread. */
let tokenizer: Tokenizer | null = null

export async function countTokens({ jsonTexts, enough }: CountTokens): Promise<CountedTokens> {
  tokenizer ??= await import('gpt-tokenizer/encoding/o200k_base')
  let tokens = 0
  for (const jsonText of jsonTexts) {
    const text = jsonText.includes('\\') ? (JSON.parse(`"${jsonText}"`) as string) : jsonText
    for (let from = 0; from < text.length; ) {
      if (tokens >= enough) return { tokens, isComplete: false }
      const to = pieceEnd(text, from)
      tokens += tokenizer.countTokens(text.slice(from, to), AS_TEXT)
      from = to
    }
  }
  return { tokens, isComplete: true }
}

/** A piece never ends between the two halves of a surrogate pair. */
function pieceEnd(text: string, from: number): number {
  const to = Math.min(from + PIECE, text.length)
  const code = text.charCodeAt(to - 1)
  return to < text.length && code >= 0xd800 && code <= 0xdbff ? to + 1 : to
}
