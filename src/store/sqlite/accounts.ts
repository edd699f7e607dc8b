/** Accounts and keys in SQLite. Synchronous: the storage thread and the command line both run it where they are. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { TierName } from '../../job/tier.ts'
import { capColumns, readSecrets, STANDING_COLUMNS, withStanding } from '../account-rows.ts'
import type {
  AccountPage,
  AccountRecord,
  KeyRecord,
  KeySearch,
  NewKey,
  NewKeyResult,
  OwnCaps,
  Secrets,
} from '../account-store.ts'

const KEY_COLUMNS = `k.id, k.account, a.tier, k.created_at_ms as "createdAtMs", k.expires_at_ms as "expiresAtMs",
  k.revoked_at_ms as "revokedAtMs", ${STANDING_COLUMNS} from keys k join accounts a on a.name = k.account`

export class SqliteAccounts {
  readonly #db: DatabaseSync
  readonly #findKey: StatementSync

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#findKey = db.prepare(`select ${KEY_COLUMNS} where k.hash = ?`)
  }

  createKey(key: NewKey): NewKeyResult {
    const account = this.#db.prepare('select tier from accounts where name = ?').get(key.account)
    if (account && account.tier !== key.tier) {
      return { kind: 'other tier', tier: account.tier as TierName }
    }
    if (!account) {
      this.#db
        .prepare('insert into accounts (name, tier, secret) values (?, ?, ?)')
        .run(key.account, key.tier, key.secret)
    }
    this.#db
      .prepare('insert into keys (id, account, hash, created_at_ms, expires_at_ms) values (?, ?, ?, ?, ?)')
      .run(key.id, key.account, key.hash, key.createdAtMs, key.expiresAtMs)
    return { kind: 'created' }
  }

  listKeys(): KeyRecord[] {
    const rows = this.#db.prepare(`select ${KEY_COLUMNS} order by k.created_at_ms, k.id`).all()
    return rows.map(withStanding<KeyRecord>)
  }

  searchKeys({ account, beforeKeyId, limit }: KeySearch): KeyRecord[] {
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
    const sql = `select ${KEY_COLUMNS} where ${conditions.join(' and ')}
      order by k.created_at_ms desc, k.id desc limit ?`
    const rows = this.#db.prepare(sql).all(...values, limit)
    return rows.map(withStanding<KeyRecord>)
  }

  listAccounts({ after, limit, nowMs }: AccountPage): AccountRecord[] {
    const rows = this.#db
      .prepare(
        `select a.name, a.tier, a.rotated_at_ms as "rotatedAtMs", ${STANDING_COLUMNS},
           (select count(*) from keys k where k.account = a.name) as keys,
           (select count(*) from keys k where k.account = a.name and k.revoked_at_ms is null
             and coalesce(k.expires_at_ms > ?1, true)) as "activeKeys"
         from accounts a where a.name > ?2 order by a.name limit ?3`,
      )
      .all(nowMs, after ?? '', limit)
    return rows.map(withStanding<AccountRecord>)
  }

  revokeKey(keyId: string, nowMs: number): 'revoked' | 'revoked before' | 'unknown' {
    const row = this.#db.prepare('select revoked_at_ms from keys where id = ?').get(keyId)
    if (!row) return 'unknown'
    if (row.revoked_at_ms !== null) return 'revoked before'
    this.#db.prepare('update keys set revoked_at_ms = ? where id = ?').run(nowMs, keyId)
    return 'revoked'
  }

  findKey(hash: string): KeyRecord | null {
    const row = this.#findKey.get(hash)
    return row ? withStanding<KeyRecord>(row) : null
  }

  setTier(account: string, tier: TierName): boolean {
    return this.#db.prepare('update accounts set tier = ? where name = ?').run(tier, account).changes > 0
  }

  suspend(account: string, sinceMs: number | null): boolean {
    const since = 'case when ?1 is null then null else coalesce(suspended_at_ms, ?1) end'
    const sql = `update accounts set suspended_at_ms = ${since} where name = ?2`
    return this.#db.prepare(sql).run(sinceMs, account).changes > 0
  }

  setCaps(account: string, caps: OwnCaps): boolean {
    const sql = 'update accounts set cap_jobs = ?, cap_tokens = ? where name = ?'
    return this.#db.prepare(sql).run(...capColumns(caps), account).changes > 0
  }

  secrets(account: string): Secrets | null {
    const row = this.#db
      .prepare('select secret, previous_secret, rotated_at_ms from accounts where name = ?')
      .get(account)
    return row ? readSecrets(row) : null
  }

  rotateSecret(account: string, secret: string, nowMs: number): boolean {
    const sql = 'update accounts set previous_secret = secret, secret = ?, rotated_at_ms = ? where name = ?'
    return this.#db.prepare(sql).run(secret, nowMs, account).changes > 0
  }

  hasAccounts(): boolean {
    return this.#db.prepare('select 1 from accounts limit 1').get() !== undefined
  }
}
