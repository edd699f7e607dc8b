/**
 * Makes correlation IDs. They make each request unique, so that no answer comes from a cache, and match an answer to its
 * request. All have the same length, so that they fit into a prepared request.
 */
import { randomBytes } from 'node:crypto'

export const CORRELATION_ID_PREFIX = 'corr-'
const RUN_CHARACTERS = 12
const COUNT_CHARACTERS = 8
export const CORRELATION_ID_BYTES = CORRELATION_ID_PREFIX.length + RUN_CHARACTERS + COUNT_CHARACTERS

/** The IDs are unique across runs. */
export function correlationIdGenerator(): () => string {
  const run = randomBytes(RUN_CHARACTERS / 2).toString('hex')
  let count = 0
  return () => `${CORRELATION_ID_PREFIX}${run}${(count++).toString(36).padStart(COUNT_CHARACTERS, '0')}`
}
