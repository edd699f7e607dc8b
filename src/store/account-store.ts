/**
 * Accounts, their keys, and the admin tokens that operators create: the part of the storage contract for authentication and
 * operators. Keys and tokens are stored only as hashes.
 */
import type { QuotaUse } from './usage-store.ts'

export interface AccountStore {
  /**
   * Adds a key, and creates the account if it is new, in one transaction. If the account exists, the key must name its tier. A
   * second call with the same key rejects.
   */
  createKey(key: NewKey): Promise<NewKeyResult>

  /** Returns every key, oldest first, including revoked and expired ones. */
  listKeys(): Promise<KeyRecord[]>

  /**
   * Returns a page of the hashes of all keys, in order, including those of revoked and expired keys.
   * @param after the last hash of the previous page
   */
  listKeyHashes(after: string, limit: number): Promise<string[]>

  /**
   * Returns keys, newest first. Returns null if the key of `beforeKeyId` does not exist, for example because its account was
   * deleted.
   */
  searchKeys(search: KeySearch): Promise<KeyRecord[] | null>

  /** Returns accounts in the order of their names. */
  listAccounts(page: AccountPage): Promise<AccountRecord[]>

  /** Revokes a key permanently. A second call changes nothing. */
  revokeKey(keyId: string, nowMs: number): Promise<RevokeResult>

  /**
   * Creates a key with the account, the label and the lifetime of another key. The other key expires after its grace time,
   * unless it expires earlier.
   */
  rotateKey(rotation: KeyRotation): Promise<RotatedKey>

  /** Records that the keys were used in the hour that starts at `hourMs`. If a later hour is already recorded, that stays. */
  noteKeyUses(keyIds: readonly string[], hourMs: number): Promise<void>

  /** Returns the key with this hash, or null. The caller must check whether it has expired or was revoked. */
  findKey(hash: string): Promise<KeyRecord | null>

  /** Moves an account to a tier. Returns false if the account does not exist. Accepted jobs keep their tier. */
  setTier(account: string, tier: string): Promise<boolean>

  /**
   * Rejects new jobs of the account from `sinceMs` on; null ends the suspension. If the account is already suspended, the
   * earlier time stays. Returns false if the account does not exist.
   */
  suspend(account: string, sinceMs: number | null): Promise<boolean>

  /** Sets these caps of the account and does not change the others. Returns false if the account does not exist. */
  setCaps(account: string, caps: Partial<OwnCaps>): Promise<boolean>

  /**
   * Sends events of jobs that are created from now on to this URL; null stops this. Returns false if the account does not
   * exist.
   */
  setWebhook(account: string, url: string | null): Promise<boolean>

  /** Returns the secrets that sign the account's callbacks; null if the account does not exist. */
  secrets(account: string): Promise<Secrets | null>

  /**
   * Makes `secret` the account's signing secret. The previous secret remains valid for a day; an older one becomes invalid at
   * once. Returns false if the account does not exist. A second call rotates again.
   */
  rotateSecret(account: string, secret: string, nowMs: number): Promise<boolean>

  hasAccounts(): Promise<boolean>
}

/** How much an account may use: a number, `none` for no limit, or null for the limit of its tier. */
export type OwnCap = number | 'none' | null

export interface OwnCaps {
  readonly monthlyJobs: OwnCap
  /** Counts input and output tokens. */
  readonly monthlyTokens: OwnCap
  /** In millionths of the currency. If absent, the tier's cap applies. */
  readonly monthlyCost?: OwnCap
  readonly openJobs: OwnCap
  readonly storedBytes: OwnCap
}

export interface NewKey {
  readonly id: string
  readonly hash: string
  readonly account: string
  /** The tier of a new account. If the account exists, this must be its tier. */
  readonly tier: string
  /** The signing secret, if the account is new. */
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
  /** The start of the hour in which the key was last used; null if it was never used. The latest uses may be missing. */
  readonly usedAtMs: number | null
  /** When the account was suspended; null if it is not suspended. */
  readonly suspendedAtMs: number | null
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
  /** Decides which keys have expired. */
  readonly nowMs: number
}

export interface AccountRecord {
  readonly name: string
  readonly tier: string
  readonly keys: number
  readonly activeKeys: number
  /** Null if the signing secret was never rotated. */
  readonly rotatedAtMs: number | null
  /** Null if the account is not suspended. */
  readonly suspendedAtMs: number | null
  readonly webhookUrl: string | null
  readonly caps: OwnCaps
  readonly quotaUse: QuotaUse
}

export interface Secrets {
  readonly current: string
  /** The secret that the last rotation replaced, and the time of that rotation. */
  readonly previous: { readonly secret: string; readonly rotatedAtMs: number } | null
}

/** The admin tokens that operators create, in addition to the one in the server's settings. */
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
  /** The operator or program that uses the token, for the audit log. */
  readonly name: string
  readonly hash: string
  /** A read-only token can neither change anything nor read the contents of jobs. */
  readonly readOnly: boolean
  readonly createdAtMs: number
  /** Null if the token never expires. */
  readonly expiresAtMs: number | null
}

export interface AdminTokenRecord extends NewAdminToken {
  readonly revokedAtMs: number | null
}
