/** Accounts and their keys: the part of the storage contract that authentication and operators use. */
import type { QuotaUse } from './usage-store.ts'

export interface AccountStore {
  /**
   * Adds a key, and creates the account if it is new, in one transaction. An account that exists keeps its tier; see
   * `NewKeyResult`. A second call with the same key rejects.
   */
  createKey(key: NewKey): Promise<NewKeyResult>

  /** Every key, oldest first, including revoked and expired ones. */
  listKeys(): Promise<KeyRecord[]>

  /**
   * A page of the hashes of all keys, including revoked and expired ones, in the order of the hashes: those after the last
   * hash of the previous page.
   */
  listKeyHashes(after: string, limit: number): Promise<string[]>

  /** Newest first. */
  searchKeys(search: KeySearch): Promise<KeyRecord[]>

  /** By name. */
  listAccounts(page: AccountPage): Promise<AccountRecord[]>

  /** Revokes a key permanently. A second call changes nothing. */
  revokeKey(keyId: string, nowMs: number): Promise<RevokeResult>

  /**
   * Adds a key with the account and the label of another one, which expires at the end of its grace time, unless it expires
   * earlier. The new key lives as long as the other one was to live. See `RotatedKey`.
   */
  rotateKey(rotation: KeyRotation): Promise<RotatedKey>

  /** Stores that the keys were used in the hour that begins then, unless a later one is stored. */
  noteKeyUses(keyIds: readonly string[], hourMs: number): Promise<void>

  /** The key with this hash, or null. The caller checks whether it has expired or was revoked. */
  findKey(hash: string): Promise<KeyRecord | null>

  /** Moves an account to a tier; false if the account does not exist. Jobs already accepted keep their tier. */
  setTier(account: string, tier: string): Promise<boolean>

  /**
   * Rejects new jobs of the account from then on, or accepts them again (null); false if the account does not exist. A second
   * suspension keeps the time of the first.
   */
  suspend(account: string, sinceMs: number | null): Promise<boolean>

  /** Sets the account's own caps; false if the account does not exist. */
  setCaps(account: string, caps: OwnCaps): Promise<boolean>

  /** Sends events of jobs created from then on to this URL, or none (null); false if the account does not exist. */
  setWebhook(account: string, url: string | null): Promise<boolean>

  /** The secrets that sign the account's callbacks; null if the account does not exist. */
  secrets(account: string): Promise<Secrets | null>

  /**
   * Makes `secret` the account's signing secret; the previous one remains valid for a day. False if the account does not
   * exist. A second call rotates again, and the secret before the first is lost.
   */
  rotateSecret(account: string, secret: string, nowMs: number): Promise<boolean>

  /** Whether any account exists. The first start creates one. */
  hasAccounts(): Promise<boolean>
}

/** How much an account may use: a number, `none` for no limit, or null for the limit of its tier. */
export type OwnCap = number | 'none' | null

export interface OwnCaps {
  readonly monthlyJobs: OwnCap
  /** Input and output together. */
  readonly monthlyTokens: OwnCap
  /** In millionths of the currency; absent for that of the tier. */
  readonly monthlyCost?: OwnCap
  /** Jobs that are open at the same time. */
  readonly openJobs: OwnCap
  readonly storedBytes: OwnCap
}

export interface NewKey {
  readonly id: string
  readonly hash: string
  readonly account: string
  /** The tier of a new account; for an existing one, it must be the same. */
  readonly tier: string
  /** The signing secret for an account that is new. */
  readonly secret: string
  /** What the operator calls it. */
  readonly label?: string | null
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
}

/** `other tier`: the account exists with the named tier; nothing was stored. */
export type NewKeyResult =
  | { readonly kind: 'created' }
  | { readonly kind: 'other tier'; readonly tier: string }

export interface KeyRotation {
  readonly keyId: string
  readonly newId: string
  readonly newHash: string
  readonly nowMs: number
  readonly graceMs: number
}

/** `not active`: the key was revoked or has expired; nothing was stored. */
export type RotatedKey =
  | { readonly kind: 'rotated'; readonly newKey: KeyRecord; readonly oldExpiresAtMs: number }
  | { readonly kind: 'not active' }
  | { readonly kind: 'unknown' }

export type RevokeResult = 'revoked' | 'revoked before' | 'unknown'

export interface KeyRecord {
  readonly id: string
  readonly account: string
  /** What the operator calls it; null for no label. */
  readonly label: string | null
  readonly tier: string
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  readonly revokedAtMs: number | null
  /** The beginning of the hour in which it was last used, about; null if it never was. */
  readonly usedAtMs: number | null
  /** When its account was suspended; null if it is not suspended. */
  readonly suspendedAtMs: number | null
  /** Where events of its jobs are sent; null for nowhere. */
  readonly webhookUrl: string | null
  readonly caps: OwnCaps
}

export interface KeySearch {
  readonly account?: string
  /** Only keys created before this one, the last of the previous page. */
  readonly beforeKeyId?: string
  readonly limit: number
}

export interface AccountPage {
  /** Only accounts after this name, the last of the previous page. */
  readonly after?: string
  readonly limit: number
  /** The current time, which decides which keys have expired. */
  readonly nowMs: number
}

export interface AccountRecord {
  readonly name: string
  readonly tier: string
  /** All of its keys, and those that are neither revoked nor expired. */
  readonly keys: number
  readonly activeKeys: number
  /** When the signing secret was last rotated; null if never. */
  readonly rotatedAtMs: number | null
  /** When it was suspended; null if it is not suspended. */
  readonly suspendedAtMs: number | null
  /** Where events of its jobs are sent; null for nowhere. */
  readonly webhookUrl: string | null
  readonly caps: OwnCaps
  readonly quotaUse: QuotaUse
}

export interface Secrets {
  readonly current: string
  /** The secret before the last rotation, and when that was. */
  readonly previous: { readonly secret: string; readonly rotatedAtMs: number } | null
}
