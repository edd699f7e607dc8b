/**
 * Counts the tokens of a conversation, a slice at a time, so that accounts that share the threads take turns and a count can be
 * stopped between two slices.
 */
import { framingTokens } from '../job/create-body.ts'
import type { CountedTokens } from './count-tokens.ts'
import { textSample, textSlices } from './message-texts.ts'

export interface TokenCount {
  readonly tokens: number
  /** `at least` if the count stopped at the limit, `about` if a sample was far above it. */
  readonly certainty: 'exact' | 'at least' | 'about'
}

/** Counts texts on a thread, and may stop at `enough`. Resolves with null if it was stopped. */
export type CountTexts = (jsonTexts: readonly string[], enough: number) => Promise<CountedTokens | null>

export interface Conversation {
  readonly messagesJson: string
  readonly messages: number
  /** An upper bound of the conversation's tokens: the bytes of its texts, plus the tokens of the chat format. */
  readonly tokensAtMost: number
}

/**
 * A text whose bytes exceed the limit in tokens by this factor is sampled first, because it is most likely too long: a token of
 * prose has four or five bytes.
 */
const SAMPLED_FROM = 8
const SAMPLE_PIECES = 32
const SAMPLE_CHARACTERS = 512
/** A sample is trusted if it exceeds the limit by this factor. */
const CLEARLY_OVER = 2

/** Counts the conversation's tokens up to just above the limit. Resolves with null if it was stopped. */
export async function countConversation(
  { messagesJson, messages, tokensAtMost }: Conversation,
  limit: number,
  countTexts: CountTexts,
): Promise<TokenCount | null> {
  let tokens = framingTokens(messages)
  if (tokensAtMost > SAMPLED_FROM * limit) {
    const sample = textSample(messagesJson, SAMPLE_PIECES, SAMPLE_CHARACTERS)
    const sampled = await countTexts(sample.jsonTexts, Number.POSITIVE_INFINITY)
    if (sampled === null) return null
    const about = tokens + Math.round(sampled.tokens / sample.part)
    if (about > CLEARLY_OVER * limit) return { tokens: about, certainty: 'about' }
  }
  for (const slice of textSlices(messagesJson)) {
    if (tokens > limit) return { tokens, certainty: 'at least' }
    const counted = await countTexts(slice, limit + 1 - tokens)
    if (counted === null) return null
    tokens += counted.tokens
    if (!counted.isComplete) return { tokens, certainty: 'at least' }
  }
  return { tokens, certainty: 'exact' }
}
