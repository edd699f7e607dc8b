/** Accounts and keys as operators are shown them. Times are Unix seconds. */
import type { AccountRecord, KeyRecord } from '../store/account-store.ts'

export function accountView({ name, tier, keys, activeKeys, rotatedAtMs }: AccountRecord) {
  return { name, tier, keys, active_keys: activeKeys, secret_rotated_at: secondsOf(rotatedAtMs) }
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
