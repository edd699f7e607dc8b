/** What every store reads alike from its rows of accounts. */
import type { Secrets } from './account-store.ts'

/** Of a row with the columns `secret`, `previous_secret` and `rotated_at_ms`. */
export function readSecrets(row: Readonly<Record<string, unknown>>): Secrets {
  const { secret, previous_secret: previous, rotated_at_ms: rotated } = row
  return {
    current: String(secret),
    previous: previous === null ? null : { secret: String(previous), rotatedAtMs: Number(rotated) },
  }
}
