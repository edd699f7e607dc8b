/**
 * What makes each request's contents unique, so that no answer is ever taken from a cache, and ties an answer to its
 * request. It has a fixed length, so that it can be written into a prepared request.
 */
import { randomBytes } from 'node:crypto'

export const MARK_START = 'mark-'
const RUN_CHARACTERS = 12
const COUNT_CHARACTERS = 8
export const MARK_BYTES = MARK_START.length + RUN_CHARACTERS + COUNT_CHARACTERS

/** Returns a maker of marks, none of which was ever made before. */
export function markMaker(): () => string {
  const run = randomBytes(RUN_CHARACTERS / 2).toString('hex')
  let count = 0
  return () => `${MARK_START}${run}${(count++).toString(36).padStart(COUNT_CHARACTERS, '0')}`
}
