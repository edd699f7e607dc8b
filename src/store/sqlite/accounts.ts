/** Accounts and keys in SQLite. Synchronous: the storage thread and the command line both run it where they are. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { TierName } from '../../config/settings.ts'
import { readSecrets } from '../account-rows.ts'
import type { KeyRecord, NewKey, NewKeyResult, Secrets } from '../account-store.ts'

const KEY_COLUMNS = `k.id, k.account, a.tier, k.created_at_ms as "createdAtMs", k.expires_at_ms as "expiresAtMs",
  k.revoked_at_ms as "revokedAtMs" from keys k join accounts a on a.name = k.account`

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
    return rows.map((row) => ({ ...row }) as unknown as KeyRecord)
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
    return row ? ({ ...row } as unknown as KeyRecord) : null
  }

  setTier(account: string, tier: TierName): boolean {
    return this.#db.prepare('update accounts set tier = ? where name = ?').run(tier, account).changes > 0
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
