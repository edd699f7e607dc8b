/**
 * Counts the tokens of a conversation on the CPU pool, one slice at a time. Between two slices, other accounts get their turn
 * on the threads, and a count can be stopped.
 */
import { framingTokens } from '../job/create-body.ts'
import { stringEnd } from '../json-text/scan-json.ts'
import type { CountedTokens } from './count-tokens.ts'

export interface TokenCount {
  readonly tokens: number
  /** `at least`: the count stopped just above the limit. `about`: the number is an estimate far above the limit. */
  readonly certainty: 'exact' | 'at least' | 'about'
}

/** Counts texts on a thread, and may stop at `enough` tokens. Resolves with null if the count was stopped. */
export type CountTexts = (jsonTexts: readonly string[], enough: number) => Promise<CountedTokens | null>

export interface Conversation {
  readonly messagesJson: string
  readonly messages: number
  /** This is an upper bound of the conversation's tokens: the bytes of its texts, plus the tokens of the chat format. */
  readonly tokensAtMost: number
}

/**
 * If the bytes of a conversation exceed the limit in tokens by this factor, a sample is counted first. Such a conversation is
 * most likely too long, because a token of prose has four or five bytes.
 */
const SAMPLED_FROM = 8
const SAMPLE_PIECES = 32
const SAMPLE_CHARACTERS = 512
const CLEARLY_OVER = 2

/** Counts up to just above the limit. Resolves with null if the count was stopped. */
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

/*
 * Finds the texts of a conversation in its JSON text without parsing it, and cuts them into slices. Each slice takes a thread
 * of the pool a fraction of a second, whatever its content.
 */

/** The range excludes the quotes of the JSON string. */
interface TextRange {
  readonly from: number
  readonly to: number
}

/** `JSON.stringify` must have written the messages. Their members `role` and `content` may be in either order. */
export function* messageTexts(messagesJson: string): Generator<TextRange> {
  let at = messagesJson.indexOf('"')
  while (at !== -1) {
    const nameEnd = stringEnd(messagesJson, at + 1)
    const isContent = messagesJson.startsWith('content"', at + 1)
    // A colon and the opening quote of the value follow the name.
    const from = nameEnd + 3
    const to = stringEnd(messagesJson, from)
    if (isContent) yield { from, to }
    at = messagesJson.indexOf('"', to + 1)
  }
}

/** A slice has about this many characters at most. For so many random letters, the tokenizer takes about 0.1 s. */
const SLICE_CHARACTERS = 16 * 1024
const SLICE_TEXTS = 1024

export function* textSlices(messagesJson: string): Generator<string[]> {
  let slice: string[] = []
  let room = SLICE_CHARACTERS
  for (const { from, to } of messageTexts(messagesJson)) {
    for (let at = from; at < to; ) {
      // Text before `at` belongs to earlier slices, so no text is examined twice.
      const end = textEnd(messagesJson, at, Math.min(at + room, to), to)
      slice.push(messagesJson.slice(at, end))
      room -= end - at
      at = end
      if (room > 0 && slice.length < SLICE_TEXTS) continue
      yield slice
      slice = []
      room = SLICE_CHARACTERS
    }
  }
  if (slice.length > 0) yield slice
}

interface TextSample {
  readonly jsonTexts: readonly string[]
  /** The sample contains this part of the whole text, from 0 to 1; 1 if there is no text. */
  readonly part: number
}

export function textSample(messagesJson: string, pieces: number, characters: number): TextSample {
  const texts = [...messageTexts(messagesJson)]
  const total = texts.reduce((sum, { from, to }) => sum + to - from, 0)
  const sample: string[] = []
  let before = 0
  let next = 0
  for (const { from, to } of texts) {
    // The text may be cut at this index. `textEnd` does not search back beyond it, so that all pieces together take one pass.
    let cut = from
    for (; next < total && next < before + to - from; next += total / pieces) {
      const at = textEnd(messagesJson, cut, Math.max(cut, from + Math.floor(next - before)), to)
      cut = textEnd(messagesJson, at, Math.min(at + characters, to), to)
      sample.push(messagesJson.slice(at, cut))
    }
    before += to - from
  }
  const sampled = sample.reduce((sum, text) => sum + text.length, 0)
  return { jsonTexts: sample, part: total === 0 ? 1 : sampled / total }
}

const BACKSLASH = 0x5c
/** The longest escape, such as `\u00e9`, has this many characters. */
const LONGEST_ESCAPE = 6

/**
 * Returns the first index from `at` on at which the text may be cut. A cut inside an escape or a surrogate pair would change
 * the text.
 * @param from an index, not after `at`, at which the text may be cut
 */
function textEnd(json: string, from: number, at: number, to: number): number {
  if (at >= to) return to
  for (let back = 1; back < LONGEST_ESCAPE && at - back >= from; back++) {
    if (json.charCodeAt(at - back) !== BACKSLASH || !beginsEscape(json, from, at - back)) continue
    const end = at - back + (json[at - back + 1] === 'u' ? LONGEST_ESCAPE : 2)
    if (end > at) return Math.min(end, to)
    break
  }
  const code = json.charCodeAt(at - 1)
  return at > from && code >= 0xd800 && code <= 0xdbff ? at + 1 : at
}

/** Returns whether the backslash at `at` starts an escape. It does not if the previous backslash escapes it. */
function beginsEscape(json: string, from: number, at: number): boolean {
  let before = 0
  while (at - 1 - before >= from && json.charCodeAt(at - 1 - before) === BACKSLASH) before++
  return before % 2 === 0
}
