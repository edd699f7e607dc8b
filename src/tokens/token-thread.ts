/**
 * Counts tokens in a thread: the tokenizer is fast on prose but slow on long runs of one character, and must never block
 * the event loop of the HTTP server.
 */
import { parentPort } from 'node:worker_threads'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'

/**
 * The tokenizer takes quadratic time for runs without a break, so text is counted in pieces of this many characters. A cut
 * can split a token, so the count may be too high by one for each piece.
 */
const PIECE = 1024
/** Text that looks like a special token was written by a caller, and is counted as text. */
const AS_TEXT = { disallowedSpecial: new Set<string>() }

export interface CountRequest {
  readonly id: number
  readonly texts: readonly string[]
  /** Counting stops here: more is too many in any case. */
  readonly enough: number
}

export interface CountReply {
  readonly id: number
  readonly tokens: number
}

export function countTexts(texts: readonly string[], enough: number): number {
  let tokens = 0
  for (const text of texts) {
    for (let from = 0; from < text.length && tokens < enough; ) {
      const to = pieceEnd(text, from)
      tokens += countTokens(text.slice(from, to), AS_TEXT)
      from = to
    }
  }
  return tokens
}

/** Never between the two halves of a surrogate pair. */
function pieceEnd(text: string, from: number): number {
  const to = Math.min(from + PIECE, text.length)
  const code = text.charCodeAt(to - 1)
  return to < text.length && code >= 0xd800 && code <= 0xdbff ? to + 1 : to
}

parentPort?.on('message', ({ id, texts, enough }: CountRequest) => {
  parentPort?.postMessage({ id, tokens: countTexts(texts, enough) } satisfies CountReply)
})
