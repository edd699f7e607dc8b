/**
 * How large a job's input is, in tokens. Bytes bound tokens from above, since a token is at least a byte, so most jobs
 * need no tokenizer.
 */
import type { Message } from './job.ts'

/** What the chat format adds: a few tokens a message, and a few for the start of the answer. */
const TOKENS_PER_MESSAGE = 3
const TOKENS_FOR_ANSWER = 3

export function framingTokens(messages: readonly Message[]): number {
  return messages.length * TOKENS_PER_MESSAGE + TOKENS_FOR_ANSWER
}

/** At least as many as the input's tokens. */
export function tokensAtMost(messages: readonly Message[]): number {
  return messages.reduce((sum, { content }) => sum + Buffer.byteLength(content), framingTokens(messages))
}
