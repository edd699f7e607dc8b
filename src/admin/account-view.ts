/** Accounts and keys as the admin API and `--json` return them. Times are Unix seconds. */
import type { AccountRecord, KeyRecord, OwnCap, OwnCaps } from '../store/account-store.ts'

export function accountView(record: AccountRecord) {
  const { name, tier, keys, activeKeys, rotatedAtMs, suspendedAtMs, caps } = record
  return {
    name,
    tier,
    keys,
    active_keys: activeKeys,
    secret_rotated_at: secondsOf(rotatedAtMs),
    suspended_at: secondsOf(suspendedAtMs),
    ...capsView(caps),
  }
}

/** A cap as JSON and command options have it: a number, no cap, or the cap of the tier. */
export type CapText = number | 'none' | 'tier'

export function capsView({ monthlyJobs, monthlyTokens }: OwnCaps) {
  const textOf = (cap: OwnCap): CapText => cap ?? 'tier'
  return { max_monthly_jobs: textOf(monthlyJobs), max_monthly_tokens: textOf(monthlyTokens) }
}

export function readCap(text: CapText): OwnCap {
  return text === 'tier' ? null : text
}

export function keyView({ id, account, tier, createdAtMs, expiresAtMs, revokedAtMs }: KeyRecord) {
  return {
    id,
    account,
    tier,
    created_at: secondsOf(createdAtMs),
    expires_at: secondsOf(expiresAtMs),
    revoked_at: secondsOf(revokedAtMs),
  }
}

export function secondsOf(ms: number | null): number | null {
  return ms === null ? null : Math.floor(ms / 1000)
}
