/** Accounts and keys as the admin API and `--json` return them. Times are Unix seconds. */
import type { AccountRecord, KeyRecord, OwnCap, OwnCaps } from '../store/account-store.ts'

export function accountView(record: AccountRecord) {
  const { name, tier, keys, activeKeys, rotatedAtMs, suspendedAtMs, caps, quotaUse } = record
  return {
    name,
    tier,
    keys,
    active_keys: activeKeys,
    secret_rotated_at: secondsOf(rotatedAtMs),
    suspended_at: secondsOf(suspendedAtMs),
    ...capsView(caps),
    open_jobs: quotaUse.openJobs,
    stored_bytes: quotaUse.storedBytes,
  }
}

/** A cap as JSON and command options have it: a number, no cap, or the cap of the tier. */
export type CapText = number | 'none' | 'tier'

export function capsView({ monthlyJobs, monthlyTokens, openJobs, storedBytes }: OwnCaps) {
  const textOf = (cap: OwnCap): CapText => cap ?? 'tier'
  return {
    max_monthly_jobs: textOf(monthlyJobs),
    max_monthly_tokens: textOf(monthlyTokens),
    max_open_jobs: textOf(openJobs),
    max_stored_bytes: textOf(storedBytes),
  }
}

/** Caps as passed by the operator: those that are absent remain unchanged. */
export type GivenCaps = { readonly [Name in keyof ReturnType<typeof capsView>]?: CapText | undefined }

export function changedCaps(before: OwnCaps, given: GivenCaps): OwnCaps {
  const capOf = (text: CapText | undefined, cap: OwnCap) => (text === undefined ? cap : readCap(text))
  return {
    monthlyJobs: capOf(given.max_monthly_jobs, before.monthlyJobs),
    monthlyTokens: capOf(given.max_monthly_tokens, before.monthlyTokens),
    openJobs: capOf(given.max_open_jobs, before.openJobs),
    storedBytes: capOf(given.max_stored_bytes, before.storedBytes),
  }
}

function readCap(text: CapText): OwnCap {
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
