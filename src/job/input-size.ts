/**
 * The size of a job's input in tokens. The number of bytes is an upper bound, since a token is at least a byte, so most
 * jobs need no tokenizer.
 */
import type { Message } from './job.ts'

const TOKENS_PER_MESSAGE = 3
const TOKENS_FOR_ANSWER = 3

/** What the chat format adds to the texts: a few tokens for each message, and a few for the start of the answer. */
export function framingTokens(messages: number): number {
  return messages * TOKENS_PER_MESSAGE + TOKENS_FOR_ANSWER
}

/** An upper bound of the input's tokens. */
export function tokensAtMost(messages: readonly Message[]): number {
  let tokens = TOKENS_FOR_ANSWER
  for (const { content } of messages) tokens += TOKENS_PER_MESSAGE + Buffer.byteLength(content)
  return tokens
}
