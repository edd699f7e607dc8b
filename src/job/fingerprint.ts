/** Decides whether two jobs are identical, and whether a request repeats an earlier request of its account. */
import { createHash, hash } from 'node:crypto'
import type { Job } from './job.ts'
import { BEFORE_METADATA, BEFORE_RECORD, BEFORE_TRACE, splitRecord } from './response-format.ts'

/** A fingerprint has 132 bits, in base64url. */
export const FINGERPRINT_DIGITS = 22
/** Messages longer than this are hashed without joining them to the other parts, because joining would copy them. */
const LONG = 16_384

/**
 * Jobs have the same fingerprint if they have the same account, model, response_format, options and messages. The length of
 * each part comes before it, so that different parts never join into the same text.
 */
export function jobFingerprint({
  account,
  model,
  responseFormatJson,
  messagesJson: messages,
}: Pick<Job, 'account' | 'model' | 'responseFormatJson' | 'messagesJson'>): string {
  // Metadata, a trace and what an API remembers of the request do not change the answer.
  const hasMore =
    responseFormatJson.startsWith(BEFORE_METADATA) ||
    responseFormatJson.startsWith(BEFORE_TRACE) ||
    responseFormatJson.startsWith(BEFORE_RECORD)
  const format = hasMore ? splitRecord(responseFormatJson).restJson : responseFormatJson
  const before = `${account.length}:${account}${model.length}:${model}${format.length}:${format}${messages.length}:`
  const digest =
    messages.length > LONG
      ? createHash('sha256').update(before).update(messages).digest('base64url')
      : hash('sha256', before + messages, 'base64url')
  return digest.slice(0, FINGERPRINT_DIGITS)
}

export const HASH_DIGITS = 32

/** A repeated request finds the job of the first by this hash. Hex digits sort the same in every collation of Postgres. */
export function hashOfRequest(route: string, bodyJson: string): string {
  return hash('sha256', `${route} ${bodyJson}`).slice(0, HASH_DIGITS)
}
