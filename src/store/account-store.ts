/**
 * Accounts, their keys, and the admin tokens that operators create: the part of the storage contract that authentication and
 * operators use. Keys and tokens are stored only as hashes.
 */
import type { QuotaUse } from './usage-store.ts'

export interface AccountStore {
  /**
   * Adds a key, and creates the account if it is new, in one transaction. An existing account must have the tier of the key
   * (`NewKeyResult`). A second call with the same key rejects.
   */
  createKey(key: NewKey): Promise<NewKeyResult>

  /** Every key, oldest first, including revoked and expired ones. */
  listKeys(): Promise<KeyRecord[]>

  /**
   * Returns a page of the hashes of all keys, including revoked and expired ones, in order.
   * @param after the last hash of the previous page
   */
  listKeyHashes(after: string, limit: number): Promise<string[]>

  /** Returns keys, newest first. Returns null if the key of `beforeKeyId` does not exist, as after the deletion of its account. */
  searchKeys(search: KeySearch): Promise<KeyRecord[] | null>

  /** Returns accounts in the order of their names. */
  listAccounts(page: AccountPage): Promise<AccountRecord[]>

  /** Revokes a key permanently. A second call changes nothing. */
  revokeKey(keyId: string, nowMs: number): Promise<RevokeResult>

  /**
   * Creates a key with the account, the label and the lifetime of another key. The other key expires after its grace time, or
   * earlier if it was going to.
   */
  rotateKey(rotation: KeyRotation): Promise<RotatedKey>

  /** Stores that the keys were used in the hour that starts at `hourMs`, unless a later hour is stored already. */
  noteKeyUses(keyIds: readonly string[], hourMs: number): Promise<void>

  /** The key with this hash, or null. The caller must check whether it has expired or was revoked. */
  findKey(hash: string): Promise<KeyRecord | null>

  /** Moves an account to a tier; false if the account does not exist. Jobs already accepted keep their tier. */
  setTier(account: string, tier: string): Promise<boolean>

  /**
   * Rejects new jobs of the account from `sinceMs` on; null ends the suspension. If the account is already suspended, the
   * earlier time stays. False if the account does not exist.
   */
  suspend(account: string, sinceMs: number | null): Promise<boolean>

  /** Sets these caps of the account and does not change the others; false if the account does not exist. */
  setCaps(account: string, caps: Partial<OwnCaps>): Promise<boolean>

  /** Sends events of jobs created from now on to this URL; null stops them. False if the account does not exist. */
  setWebhook(account: string, url: string | null): Promise<boolean>

  /** The secrets that sign the account's callbacks; null if the account does not exist. */
  secrets(account: string): Promise<Secrets | null>

  /**
   * Makes `secret` the account's signing secret. The previous one remains valid for a day, and the one before that no longer
   * is. False if the account does not exist. A second call rotates again.
   */
  rotateSecret(account: string, secret: string, nowMs: number): Promise<boolean>

  /** Whether any account exists. The first start of a server creates one. */
  hasAccounts(): Promise<boolean>
}

/** How much an account may use: a number, `none` for no limit, or null for the limit of its tier. */
export type OwnCap = number | 'none' | null

export interface OwnCaps {
  readonly monthlyJobs: OwnCap
  /** Input plus output tokens. */
  readonly monthlyTokens: OwnCap
  /** In millionths of the currency; absent to use the tier's cap. */
  readonly monthlyCost?: OwnCap
  /** How many jobs may be open at the same time. */
  readonly openJobs: OwnCap
  readonly storedBytes: OwnCap
}

export interface NewKey {
  readonly id: string
  readonly hash: string
  readonly account: string
  /** The tier of a new account. For an existing one, it must be the account's tier. */
  readonly tier: string
  /** The signing secret of the account, if it is new. */
  readonly secret: string
  /** The operator's name for the key. */
  readonly label?: string | null
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
}

/** `other tier`: the account exists with the returned tier. Nothing was stored. */
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
  /** The operator's name for the key; null if it has none. */
  readonly label: string | null
  readonly tier: string
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  readonly revokedAtMs: number | null
  /** The start of the hour in which the key was last used, approximately; null if it was never used. */
  readonly usedAtMs: number | null
  /** When its account was suspended; null if it is not suspended. */
  readonly suspendedAtMs: number | null
  /** The URL that receives the events of the account's jobs; null for none. */
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
  /** `activeKeys` leaves out revoked and expired keys. */
  readonly keys: number
  readonly activeKeys: number
  /** When the signing secret was last rotated; null if never. */
  readonly rotatedAtMs: number | null
  /** When the account was suspended; null if it is not suspended. */
  readonly suspendedAtMs: number | null
  /** The URL that receives the events of the account's jobs; null for none. */
  readonly webhookUrl: string | null
  readonly caps: OwnCaps
  readonly quotaUse: QuotaUse
}

export interface Secrets {
  readonly current: string
  /** The secret that the last rotation replaced, and the time of that rotation. */
  readonly previous: { readonly secret: string; readonly rotatedAtMs: number } | null
}

/** The admin tokens that operators create, in addition to the one in the server's settings. Only their hashes are stored. */
export interface AdminTokenStore {
  /** `name taken`: a token that was not revoked has the name; nothing was stored. */
  createAdminToken(token: NewAdminToken): Promise<'created' | 'name taken'>

  /** Every token, oldest first, including revoked and expired ones. */
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
