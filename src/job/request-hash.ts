/** Identifies a request among those of its account, so that a repeated request finds the job of the first. */
import { hash } from 'node:crypto'

export const HASH_DIGITS = 32

/** Uses hex digits, because they sort the same in every collation of Postgres. */
export function hashOfRequest(route: string, bodyJson: string): string {
  return hash('sha256', `${route} ${bodyJson}`).slice(0, HASH_DIGITS)
}
