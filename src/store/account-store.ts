/** Accounts and their keys: the part of the storage contract that authentication and operators use. */
import type { TierName } from '../job/tier.ts'
import type { QuotaUse } from './usage-store.ts'

export interface AccountStore {
  /**
   * Adds a key, and creates the account if it is new, in one transaction. An account that exists keeps its tier; see
   * `NewKeyResult`. A second call with the same key rejects.
   */
  createKey(key: NewKey): Promise<NewKeyResult>

  /** Every key, oldest first, revoked and expired ones included. */
  listKeys(): Promise<KeyRecord[]>

  /** The hashes of all keys, revoked and expired ones included, in their own order: those after the last one of the page before. */
  listKeyHashes(after: string, limit: number): Promise<string[]>

  /** Newest first. */
  searchKeys(search: KeySearch): Promise<KeyRecord[]>

  /** By name. */
  listAccounts(page: AccountPage): Promise<AccountRecord[]>

  /** Ends a key permanently. A second call changes nothing. */
  revokeKey(keyId: string, nowMs: number): Promise<RevokeResult>

  /** The key with this hash, or null. The caller checks whether it has expired or was revoked. */
  findKey(hash: string): Promise<KeyRecord | null>

  /** Moves an account to a tier; false if there is no such account. Jobs already accepted keep their tier. */
  setTier(account: string, tier: TierName): Promise<boolean>

  /**
   * Rejects new jobs of the account from then on, or accepts them again (null); false if there is no such account. A second
   * suspension keeps the time of the first.
   */
  suspend(account: string, sinceMs: number | null): Promise<boolean>

  /** Sets the account's own caps; false if there is no such account. */
  setCaps(account: string, caps: OwnCaps): Promise<boolean>

  /** The secrets that sign the account's callbacks; null if there is no such account. */
  secrets(account: string): Promise<Secrets | null>

  /**
   * Makes `secret` the account's signing secret; the previous one also signs for a day. False if there is no such account. A
   * second call rotates again, and the secret before the first is lost.
   */
  rotateSecret(account: string, secret: string, nowMs: number): Promise<boolean>

  /** Whether there is any account: the first start creates one. */
  hasAccounts(): Promise<boolean>
}

/** How much an account may use: a number, `none` for no limit, or null for the limit of its tier. */
export type OwnCap = number | 'none' | null

export interface OwnCaps {
  readonly monthlyJobs: OwnCap
  /** Input and output together. */
  readonly monthlyTokens: OwnCap
  /** Jobs that are open at the same time. */
  readonly openJobs: OwnCap
  readonly storedBytes: OwnCap
}

export interface NewKey {
  readonly id: string
  readonly hash: string
  readonly account: string
  /** The tier of a new account; for an existing one, it must be the same. */
  readonly tier: TierName
  /** The signing secret for an account that is new. */
  readonly secret: string
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
}

/** `other tier`: the account exists with the named tier; nothing was stored. */
export type NewKeyResult =
  | { readonly kind: 'created' }
  | { readonly kind: 'other tier'; readonly tier: TierName }

export type RevokeResult = 'revoked' | 'revoked before' | 'unknown'

export interface KeyRecord {
  readonly id: string
  readonly account: string
  readonly tier: TierName
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  readonly revokedAtMs: number | null
  /** Of its account: since when it may create no jobs; null if it may. */
  readonly suspendedAtMs: number | null
  readonly caps: OwnCaps
}

export interface KeySearch {
  readonly account?: string
  /** Keys created before this one only: the last of the page before. */
  readonly beforeKeyId?: string
  readonly limit: number
}

export interface AccountPage {
  /** Accounts after this name only: the last of the page before. */
  readonly after?: string
  readonly limit: number
  /** Decides which keys have expired. */
  readonly nowMs: number
}

export interface AccountRecord {
  readonly name: string
  readonly tier: TierName
  /** All of its keys, and those that are neither revoked nor expired. */
  readonly keys: number
  readonly activeKeys: number
  /** When the signing secret was rotated last; null if it never was. */
  readonly rotatedAtMs: number | null
  /** Since when it may create no jobs; null if it may. */
  readonly suspendedAtMs: number | null
  readonly caps: OwnCaps
  readonly quotaUse: QuotaUse
}

export interface Secrets {
  readonly current: string
  /** The secret before the last rotation, and when that was. */
  readonly previous: { readonly secret: string; readonly rotatedAtMs: number } | null
}
