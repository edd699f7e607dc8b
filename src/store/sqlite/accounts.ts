/** Accounts and keys in SQLite. */
import type { TierName } from '../../job/tier.ts'
import {
  ACCOUNT_COLUMNS,
  capCells,
  KEY_COLUMNS,
  readAccount,
  readKey,
  readSecrets,
  readTier,
  SECRET_COLUMNS,
} from '../account-rows.ts'
import type {
  AccountPage,
  AccountRecord,
  KeyRecord,
  KeySearch,
  NewKey,
  NewKeyResult,
  OwnCaps,
  RevokeResult,
  Secrets,
} from '../account-store.ts'
import { textOf } from '../rows.ts'
import type { OpenFile } from './open-file.ts'
import { read, write } from './operation.ts'

export const accountOperations = {
  createKey: write((file: OpenFile, key: NewKey): NewKeyResult => {
    const account = file.prepare(FIND_TIER).get(key.account)
    if (account && account.tier !== key.tier) return { kind: 'other tier', tier: readTier(account) }
    if (!account) file.prepare(INSERT_ACCOUNT).run(key.account, key.tier, key.secret)
    file.prepare(INSERT_KEY).run(key.id, key.account, key.hash, key.createdAtMs, key.expiresAtMs)
    return { kind: 'created' }
  }),

  listKeys: read((file: OpenFile): KeyRecord[] => file.prepare(LIST_KEYS).all().map(readKey)),

  listKeyHashes: read((file: OpenFile, after: string, limit: number): string[] =>
    file
      .prepare(LIST_HASHES)
      .all(after, limit)
      .map((row) => textOf(row, 'hash')),
  ),

  searchKeys: read((file: OpenFile, { account, beforeKeyId, limit }: KeySearch): KeyRecord[] => {
    const conditions = ['true']
    const values: (string | number)[] = []
    if (account !== undefined) {
      conditions.push('k.account = ?')
      values.push(account)
    }
    if (beforeKeyId !== undefined) {
      conditions.push('(k.created_at_ms, k.id) < (select created_at_ms, id from keys where id = ?)')
      values.push(beforeKeyId)
    }
    const sql = `${KEYS} where ${conditions.join(' and ')} order by k.created_at_ms desc, k.id desc limit ?`
    return file
      .prepare(sql)
      .all(...values, limit)
      .map(readKey)
  }),

  listAccounts: read((file: OpenFile, { after, limit, nowMs }: AccountPage): AccountRecord[] =>
    file
      .prepare(LIST_ACCOUNTS)
      .all(nowMs, after ?? '', limit)
      .map(readAccount),
  ),

  revokeKey: write((file: OpenFile, keyId: string, nowMs: number): RevokeResult => {
    const row = file.prepare('select revoked_at_ms from keys where id = ?').get(keyId)
    if (!row) return 'unknown'
    if (row.revoked_at_ms !== null) return 'revoked before'
    file.prepare('update keys set revoked_at_ms = ? where id = ?').run(nowMs, keyId)
    return 'revoked'
  }),

  findKey: read((file: OpenFile, hash: string): KeyRecord | null => {
    const row = file.prepare(FIND_KEY).get(hash)
    return row ? readKey(row) : null
  }),

  setTier: write((file: OpenFile, account: string, tier: TierName): boolean => {
    return file.prepare('update accounts set tier = ? where name = ?').run(tier, account).changes > 0
  }),

  suspend: write((file: OpenFile, account: string, sinceMs: number | null): boolean => {
    return file.prepare(SUSPEND).run(sinceMs, account).changes > 0
  }),

  setCaps: write((file: OpenFile, account: string, caps: OwnCaps): boolean => {
    return file.prepare(SET_CAPS).run(...capCells(caps), account).changes > 0
  }),

  secrets: read((file: OpenFile, account: string): Secrets | null => {
    const row = file.prepare(SECRETS).get(account)
    return row ? readSecrets(row) : null
  }),

  rotateSecret: write((file: OpenFile, account: string, secret: string, nowMs: number): boolean => {
    return file.prepare(ROTATE_SECRET).run(secret, nowMs, account).changes > 0
  }),

  hasAccounts: read(
    (file: OpenFile): boolean => file.prepare('select 1 from accounts limit 1').get() !== undefined,
  ),
}

const KEYS = `select ${KEY_COLUMNS} from keys k join accounts a on a.name = k.account`

const FIND_TIER = 'select tier from accounts where name = ?'
const INSERT_ACCOUNT = 'insert into accounts (name, tier, secret) values (?, ?, ?)'
const INSERT_KEY = 'insert into keys (id, account, hash, created_at_ms, expires_at_ms) values (?, ?, ?, ?, ?)'
const LIST_KEYS = `${KEYS} order by k.created_at_ms, k.id`
const LIST_HASHES = 'select hash from keys where hash > ? order by hash limit ?'
const FIND_KEY = `${KEYS} where k.hash = ?`
const LIST_ACCOUNTS = `
  select ${ACCOUNT_COLUMNS},
    (select count(*) from keys k where k.account = a.name) as keys,
    (select count(*) from keys k where k.account = a.name and k.revoked_at_ms is null
      and coalesce(k.expires_at_ms > ?1, true)) as active_keys,
    coalesce(q.open_jobs, 0) as open_jobs, coalesce(q.stored_bytes, 0) as stored_bytes
  from accounts a left join quota_sums q on q.account = a.name where a.name > ?2 order by a.name limit ?3`
const SUSPEND = `
  update accounts set suspended_at_ms = case when ?1 is null then null else coalesce(suspended_at_ms, ?1) end
  where name = ?2`
const SET_CAPS =
  'update accounts set cap_jobs = ?, cap_tokens = ?, cap_open_jobs = ?, cap_stored_bytes = ? where name = ?'
const SECRETS = `select ${SECRET_COLUMNS} from accounts a where a.name = ?`
const ROTATE_SECRET =
  'update accounts set previous_secret = secret, secret = ?, rotated_at_ms = ? where name = ?'
