/**
 * Accounts, their keys, and the admin tokens of operators: the part of the storage contract for authentication and operators.
 * Keys and tokens are stored only as hashes.
 */
import type { QuotaUse } from './usage-store.ts'

export interface AccountStore {
  /** Adds a key, and creates the account if it is new. A second call with the same key rejects. */
  createKey(key: NewKey): Promise<NewKeyResult>

  /** Returns every key, oldest first, including revoked and expired ones. */
  listKeys(): Promise<KeyRecord[]>

  /** Returns hashes in order, beginning after the given one, including those of revoked and expired keys. */
  listKeyHashes(after: string, limit: number): Promise<string[]>

  /** Returns keys, newest first; null if the key of `beforeKeyId` no longer exists. */
  searchKeys(search: KeySearch): Promise<KeyRecord[] | null>

  /** Returns accounts in order of their names. */
  listAccounts(page: AccountPage): Promise<AccountRecord[]>

  /** Revokes a key permanently. A second call changes nothing. */
  revokeKey(keyId: string, nowMs: number): Promise<RevokeResult>

  /**
   * Creates a key with the account, label and lifetime of the key `keyId`. That key then expires after `graceMs`, or earlier.
   */
  rotateKey(rotation: KeyRotation): Promise<RotatedKey>

  /** Records that the keys were used in the hour that starts at `hourMs`, unless a later hour is already recorded. */
  noteKeyUses(keyIds: readonly string[], hourMs: number): Promise<void>

  /** The caller must check whether the key has expired or was revoked. */
  findKey(hash: string): Promise<KeyRecord | null>

  /** Returns false if the account does not exist. Accepted jobs keep their tier. */
  setTier(account: string, tier: string): Promise<boolean>

  /** Null ends the suspension. A suspended account keeps its earlier time. Returns false if the account does not exist. */
  suspend(account: string, sinceMs: number | null): Promise<boolean>

  /** Does not change caps that are absent from `caps`. Returns false if the account does not exist. */
  setCaps(account: string, caps: Partial<OwnCaps>): Promise<boolean>

  /** Existing jobs keep their callbacks. Returns false if the account does not exist. */
  setWebhook(account: string, url: string | null): Promise<boolean>

  /** Returns null if the account does not exist. */
  secrets(account: string): Promise<Secrets | null>

  /**
   * The previous secret remains valid for a day; an older one becomes invalid at once. Returns false if the account does not
   * exist. A second call rotates again.
   */
  rotateSecret(account: string, secret: string, nowMs: number): Promise<boolean>

  hasAccounts(): Promise<boolean>
}

/** `none` means no limit, and null means the limit of the tier. */
export type OwnCap = number | 'none' | null

export interface OwnCaps {
  readonly monthlyJobs: OwnCap
  readonly monthlyTokens: OwnCap
  /** The unit is a millionth of the currency. When caps are read, this is absent instead of null. */
  readonly monthlyCost?: OwnCap
  readonly openJobs: OwnCap
  readonly storedBytes: OwnCap
}

export interface NewKey {
  readonly id: string
  readonly hash: string
  readonly account: string
  /** If the account exists, this must be its tier. */
  readonly tier: string
  /** Becomes the signing secret of a new account. */
  readonly secret: string
  readonly label?: string | null
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
}

/** `other tier`: the account already exists with this tier. Nothing was stored. */
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

/** `not active`: the key was revoked or has expired. Nothing was stored. */
export type RotatedKey =
  | { readonly kind: 'rotated'; readonly newKey: KeyRecord; readonly oldExpiresAtMs: number }
  | { readonly kind: 'not active' }
  | { readonly kind: 'unknown' }

export type RevokeResult = 'revoked' | 'revoked before' | 'unknown'

export interface KeyRecord {
  readonly id: string
  readonly account: string
  readonly label: string | null
  readonly tier: string
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  readonly revokedAtMs: number | null
  /** The start of the hour of the last use. The latest uses may be missing. */
  readonly usedAtMs: number | null
  readonly suspendedAtMs: number | null
  readonly webhookUrl: string | null
  readonly caps: OwnCaps
}

export interface KeySearch {
  readonly account?: string
  readonly beforeKeyId?: string
  readonly limit: number
}

export interface AccountPage {
  readonly after?: string
  readonly limit: number
  readonly nowMs: number
}

export interface AccountRecord {
  readonly name: string
  readonly tier: string
  readonly keys: number
  readonly activeKeys: number
  readonly rotatedAtMs: number | null
  readonly suspendedAtMs: number | null
  readonly webhookUrl: string | null
  readonly caps: OwnCaps
  readonly quotaUse: QuotaUse
}

export interface Secrets {
  readonly current: string
  readonly previous: { readonly secret: string; readonly rotatedAtMs: number } | null
}

export interface AdminTokenStore {
  /** Returns `name taken`, and stores nothing, if a token that was not revoked has the name. */
  createAdminToken(token: NewAdminToken): Promise<'created' | 'name taken'>

  /** Returns every token, oldest first, including revoked and expired ones. */
  listAdminTokens(): Promise<AdminTokenRecord[]>

  /** Revokes a token permanently. A second call changes nothing. */
  revokeAdminToken(tokenId: string, nowMs: number): Promise<RevokeResult>
}

export interface NewAdminToken {
  readonly id: string
  readonly name: string
  readonly hash: string
  /** A read-only token can neither change anything nor read the contents of jobs. */
  readonly readOnly: boolean
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
}

export interface AdminTokenRecord extends NewAdminToken {
  readonly revokedAtMs: number | null
}
