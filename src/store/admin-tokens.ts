/** Admin tokens: the SQL of both stores. */
import type { RevokeResult } from './account-store.ts'
import type { AdminTokenRecord, NewAdminToken } from './admin-token-store.ts'
import { numberOf, numberOrNull, type Row, textOf } from './rows.ts'
import { read, type Steps, sql, write } from './sql.ts'

export const adminTokenOperations = {
  createAdminToken: write(function* (token: NewAdminToken): Steps<'created' | 'name taken'> {
    const { id, name, hash, readOnly, createdAtMs, expiresAtMs } = token
    const created = yield sql`
      insert into admin_tokens (id, name, hash, read_only, created_at_ms, expires_at_ms)
      values (${id}, ${name}, ${hash}, ${readOnly ? 1 : 0}, ${createdAtMs}, ${expiresAtMs})
      on conflict (name) where revoked_at_ms is null do nothing returning id`
    return created.length > 0 ? 'created' : 'name taken'
  }),

  listAdminTokens: read(function* (): Steps<AdminTokenRecord[]> {
    return (yield sql`select * from admin_tokens order by created_at_ms, id`).map(readToken)
  }),

  revokeAdminToken: write(function* (tokenId: string, nowMs: number): Steps<RevokeResult> {
    const revoked = yield sql`
      update admin_tokens set revoked_at_ms = ${nowMs} where id = ${tokenId} and revoked_at_ms is null returning id`
    if (revoked.length > 0) return 'revoked'
    return (yield sql`select 1 from admin_tokens where id = ${tokenId}`).length > 0
      ? 'revoked before'
      : 'unknown'
  }),
}

function readToken(row: Row): AdminTokenRecord {
  return {
    id: textOf(row, 'id'),
    name: textOf(row, 'name'),
    hash: textOf(row, 'hash'),
    readOnly: numberOf(row, 'read_only') === 1,
    createdAtMs: numberOf(row, 'created_at_ms'),
    expiresAtMs: numberOrNull(row, 'expires_at_ms'),
    revokedAtMs: numberOrNull(row, 'revoked_at_ms'),
  }
}
