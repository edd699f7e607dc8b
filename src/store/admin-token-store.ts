/** Admin tokens that operators create, in addition to the one of the server: the part of the storage contract that operators use. Only hashes are stored. */
import type { RevokeResult } from './account-store.ts'

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
  /** The operator or program that uses it, as the audit log shows it. */
  readonly name: string
  readonly hash: string
  /** A read-only token cannot change anything, and cannot read contents of jobs. */
  readonly readOnly: boolean
  readonly createdAtMs: number
  /** Null if it never expires. */
  readonly expiresAtMs: number | null
}

export interface AdminTokenRecord extends NewAdminToken {
  readonly revokedAtMs: number | null
}
