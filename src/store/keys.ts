/**
 * Both stores share this SQL, which creates, lists, finds, rotates and revokes API keys, records their use, and creates, lists
 * and revokes admin tokens of operators.
 */
import type {
  AdminTokenRecord,
  KeyRecord,
  KeyRotation,
  KeySearch,
  NewAdminToken,
  NewKey,
  NewKeyResult,
  RevokeResult,
  RotatedKey,
} from './account-store.ts'
import { ACCOUNT_CAPS, readStanding, readTier } from './accounts.ts'
import type { Dialect } from './dialect.ts'
import { numberOf, numberOrNull, type Row, textOf, textOrNull } from './rows.ts'
import { allOf, read, repeatableWrite, type Steps, sql, write } from './sql.ts'

export const keyOperations = ({ isOneOf }: Dialect) => ({
  createKey: write(function* (key: NewKey): Steps<NewKeyResult> {
    // The insert also locks an existing account, so that it cannot be deleted or moved to another tier before the key is
    // stored. If a deletion is in progress, the insert waits for it, and creates the account again.
    const [account = {}] = yield sql`
      insert into accounts as a (name, tier, secret) values (${key.account}, ${key.tier}, ${key.secret})
      on conflict (name) do update set tier = a.tier returning tier`
    const tier = readTier(account)
    if (tier !== key.tier) return { kind: 'other tier', tier }
    yield sql`insert into keys (id, account, hash, label, created_at_ms, expires_at_ms)
      values (${key.id}, ${key.account}, ${key.hash}, ${key.label ?? null}, ${key.createdAtMs}, ${key.expiresAtMs})`
    return { kind: 'created' }
  }),

  listKeys: read(function* (): Steps<KeyRecord[]> {
    return (yield sql`${KEYS} order by k.created_at_ms, k.id`).map(readKey)
  }),

  listKeyHashes: read(function* (after: string, limit: number): Steps<string[]> {
    const rows = yield sql`select hash from keys where hash > ${after} order by hash limit ${limit}`
    return rows.map((row) => textOf(row, 'hash'))
  }),

  searchKeys: read(function* ({ account, beforeKeyId, limit }: KeySearch): Steps<KeyRecord[] | null> {
    const which = allOf(
      account === undefined ? undefined : sql`k.account = ${account}`,
      beforeKeyId === undefined
        ? undefined
        : sql`(k.created_at_ms, k.id) < (select created_at_ms, id from keys where id = ${beforeKeyId})`,
    )
    const rows = yield sql`${KEYS} where ${which} order by k.created_at_ms desc, k.id desc limit ${limit}`
    if (rows.length > 0 || beforeKeyId === undefined) return rows.map(readKey)
    return (yield sql`select 1 from keys where id = ${beforeKeyId}`).length > 0 ? [] : null
  }),

  revokeKey: write(function* (keyId: string, nowMs: number): Steps<RevokeResult> {
    const revoked = yield sql`
      update keys set revoked_at_ms = ${nowMs} where id = ${keyId} and revoked_at_ms is null returning id`
    if (revoked.length > 0) return 'revoked'
    return (yield sql`select 1 from keys where id = ${keyId}`).length > 0 ? 'revoked before' : 'unknown'
  }),

  rotateKey: write(function* ({ keyId, newId, newHash, nowMs, graceMs }: KeyRotation): Steps<RotatedKey> {
    // The update locks the key, so that the second of two concurrent rotations sees the result of the first.
    const [row] = yield sql`update keys set id = id where id = ${keyId}
      returning account, label, created_at_ms, expires_at_ms, revoked_at_ms`
    if (row === undefined) return { kind: 'unknown' }
    const expiresAtMs = numberOrNull(row, 'expires_at_ms')
    const endsMs = expiresAtMs ?? Number.POSITIVE_INFINITY
    if (numberOrNull(row, 'revoked_at_ms') !== null || endsMs <= nowMs) return { kind: 'not active' }
    const oldExpiresAtMs = Math.min(endsMs, nowMs + graceMs)
    const [account, label] = [textOf(row, 'account'), textOrNull(row, 'label')]
    // If the key was rotated before, it usually expires when its grace time ends. That time began when a newer key was created,
    // and the new key must get the lifetime of that newer key. The grace time identifies it: this is a multiple of 12 s,
    // because it is given in minutes or hundredths of an hour, so an unrelated key hardly ever fits to the millisecond.
    const [lasting = row] =
      expiresAtMs === null
        ? []
        : yield sql`select created_at_ms, expires_at_ms from keys
            where account = ${account} and label is not distinct from ${label}
              and created_at_ms > ${numberOf(row, 'created_at_ms')} and (${expiresAtMs} - created_at_ms) % 12000 = 0`
    const lastsUntilMs = numberOrNull(lasting, 'expires_at_ms')
    const newExpiresAtMs = lastsUntilMs && nowMs + lastsUntilMs - numberOf(lasting, 'created_at_ms')
    yield sql`update keys set expires_at_ms = ${oldExpiresAtMs} where id = ${keyId}`
    yield sql`insert into keys (id, account, hash, label, created_at_ms, expires_at_ms)
      values (${newId}, ${account}, ${newHash}, ${label}, ${nowMs}, ${newExpiresAtMs})`
    const [created = {}] = yield sql`${KEYS} where k.id = ${newId}`
    return { kind: 'rotated', newKey: readKey(created), oldExpiresAtMs }
  }),

  noteKeyUses: repeatableWrite(function* (keyIds: readonly string[], hourMs: number): Steps<void> {
    yield sql`update keys set used_at_ms = ${hourMs} where id ${isOneOf(keyIds)} and coalesce(used_at_ms < ${hourMs}, true)`
  }),

  findKey: read(function* (hash: string): Steps<KeyRecord | null> {
    const [row] = yield sql`${KEYS} where k.hash = ${hash}`
    return row ? readKey(row) : null
  }),
})

const KEYS = sql`
  select k.id, k.account, k.label, a.tier, k.created_at_ms, k.expires_at_ms, k.revoked_at_ms, k.used_at_ms, a.suspended_at_ms, a.webhook_url, ${ACCOUNT_CAPS}
  from keys k join accounts a on a.name = k.account`

function readKey(row: Row): KeyRecord {
  return {
    id: textOf(row, 'id'),
    account: textOf(row, 'account'),
    label: textOrNull(row, 'label'),
    tier: readTier(row),
    createdAtMs: numberOf(row, 'created_at_ms'),
    expiresAtMs: numberOrNull(row, 'expires_at_ms'),
    revokedAtMs: numberOrNull(row, 'revoked_at_ms'),
    usedAtMs: numberOrNull(row, 'used_at_ms'),
    ...readStanding(row),
  }
}

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
