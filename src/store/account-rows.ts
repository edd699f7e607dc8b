/** Rows of accounts and keys, which every store reads and writes alike. */
import type { TierName } from '../job/tier.ts'
import type { AccountRecord, KeyRecord, OwnCap, OwnCaps, Secrets } from './account-store.ts'
import { numberOf, numberOrNull, type Row, textOf } from './rows.ts'
import { readQuotaUse } from './usage-rows.ts'

/** What `readSecrets` reads, from `accounts a`. */
export const SECRET_COLUMNS = 'a.secret, a.previous_secret, a.rotated_at_ms'

export function readSecrets(row: Row): Secrets {
  const { previous_secret: previous } = row
  return {
    current: textOf(row, 'secret'),
    previous:
      previous === null
        ? null
        : { secret: textOf(row, 'previous_secret'), rotatedAtMs: numberOf(row, 'rotated_at_ms') },
  }
}

const CAP_COLUMNS = 'a.cap_jobs, a.cap_tokens, a.cap_open_jobs, a.cap_stored_bytes'

/** What `readKey` reads, from `keys k` and `accounts a`. */
export const KEY_COLUMNS = `k.id, k.account, a.tier, k.created_at_ms, k.expires_at_ms, k.revoked_at_ms,
  a.suspended_at_ms, ${CAP_COLUMNS}`

export function readKey(row: Row): KeyRecord {
  return {
    id: textOf(row, 'id'),
    account: textOf(row, 'account'),
    tier: readTier(row),
    createdAtMs: numberOf(row, 'created_at_ms'),
    expiresAtMs: numberOrNull(row, 'expires_at_ms'),
    revokedAtMs: numberOrNull(row, 'revoked_at_ms'),
    ...readStanding(row),
  }
}

/** What `readAccount` reads from `accounts a`, in addition to `keys`, `active_keys`, `open_jobs` and `stored_bytes`. */
export const ACCOUNT_COLUMNS = `a.name, a.tier, a.rotated_at_ms, a.suspended_at_ms, ${CAP_COLUMNS}`

export function readAccount(row: Row): AccountRecord {
  return {
    name: textOf(row, 'name'),
    tier: readTier(row),
    keys: numberOf(row, 'keys'),
    activeKeys: numberOf(row, 'active_keys'),
    rotatedAtMs: numberOrNull(row, 'rotated_at_ms'),
    ...readStanding(row),
    quotaUse: readQuotaUse(row),
  }
}

/** The name is not checked: the tier may be one of another version, and then `Tiers.of` allows the account the least. */
export function readTier(row: Row): TierName {
  return textOf(row, 'tier') as TierName
}

function readStanding(row: Row): Pick<AccountRecord, 'suspendedAtMs' | 'caps'> {
  return {
    suspendedAtMs: numberOrNull(row, 'suspended_at_ms'),
    caps: {
      monthlyJobs: readCap(row, 'cap_jobs'),
      monthlyTokens: readCap(row, 'cap_tokens'),
      openJobs: readCap(row, 'cap_open_jobs'),
      storedBytes: readCap(row, 'cap_stored_bytes'),
    },
  }
}

/** How the cap `none` is stored. */
const NO_CAP = -1

/** The columns `cap_jobs`, `cap_tokens`, `cap_open_jobs` and `cap_stored_bytes`. */
export function capCells({ monthlyJobs, monthlyTokens, openJobs, storedBytes }: OwnCaps): (number | null)[] {
  return [monthlyJobs, monthlyTokens, openJobs, storedBytes].map(capCell)
}

function readCap(row: Row, column: string): OwnCap {
  const cap = numberOrNull(row, column)
  return cap === NO_CAP ? 'none' : cap
}

function capCell(cap: OwnCap): number | null {
  return cap === 'none' ? NO_CAP : cap
}
