/** What every store reads alike from its rows of accounts. */
import type { OwnCap, OwnCaps, Secrets } from './account-store.ts'

/** Of a row with the columns `secret`, `previous_secret` and `rotated_at_ms`. */
export function readSecrets(row: Readonly<Record<string, unknown>>): Secrets {
  const { secret, previous_secret: previous, rotated_at_ms: rotated } = row
  return {
    current: String(secret),
    previous: previous === null ? null : { secret: String(previous), rotatedAtMs: Number(rotated) },
  }
}

const NO_CAP = -1

/** The columns that a row of an account's keys or of the account needs for what follows. */
export const STANDING_COLUMNS =
  'a.suspended_at_ms as "suspendedAtMs", a.cap_jobs as "capJobs", a.cap_tokens as "capTokens"'

/** From a row with `STANDING_COLUMNS` to the same with `suspendedAtMs` and `caps`. */
export function withStanding<T>(row: Readonly<Record<string, unknown>>): T {
  const { capJobs, capTokens, ...rest } = row
  const caps: OwnCaps = { monthlyJobs: readCap(capJobs), monthlyTokens: readCap(capTokens) }
  return { ...rest, caps } as T
}

export function capColumns({
  monthlyJobs,
  monthlyTokens,
}: OwnCaps): [jobs: number | null, tokens: number | null] {
  return [capColumn(monthlyJobs), capColumn(monthlyTokens)]
}

function readCap(cell: unknown): OwnCap {
  if (cell === null || cell === undefined) return null
  return Number(cell) === NO_CAP ? 'none' : Number(cell)
}

function capColumn(cap: OwnCap): number | null {
  return cap === 'none' ? NO_CAP : cap
}
