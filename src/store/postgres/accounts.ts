/** Accounts and keys in Postgres. */
import type { TierName } from '../../config/settings.ts'
import { readSecrets } from '../account-rows.ts'
import type {
  AccountPage,
  AccountRecord,
  AccountStore,
  KeyRecord,
  KeySearch,
  NewKey,
  NewKeyResult,
  Secrets,
} from '../account-store.ts'
import type { Database, Row, Statement } from './database.ts'

export class PostgresAccounts implements AccountStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  createKey(key: NewKey): Promise<NewKeyResult> {
    return this.#database.transaction(async ({ query }) => {
      await query(MAKE_ACCOUNT, [key.account, key.tier, key.secret])
      const [account] = await query(TIER_OF, [key.account])
      const tier = String(account?.tier) as TierName
      if (tier !== key.tier) return { kind: 'other tier', tier }
      await query(MAKE_KEY, [key.id, key.account, key.hash, key.createdAtMs, key.expiresAtMs])
      return { kind: 'created' }
    })
  }

  async listKeys(): Promise<KeyRecord[]> {
    return (await this.#database.query(LIST_KEYS)).map(keyRecord)
  }

  async searchKeys({ account, beforeKeyId, limit }: KeySearch): Promise<KeyRecord[]> {
    const values = [account ?? null, beforeKeyId ?? null, limit]
    return (await this.#database.query(SEARCH_KEYS, values)).map(keyRecord)
  }

  async listAccounts({ after, limit, nowMs }: AccountPage): Promise<AccountRecord[]> {
    const rows = await this.#database.query(LIST_ACCOUNTS, [after ?? '', limit, Math.floor(nowMs)])
    return rows.map((row) => ({
      name: String(row.name),
      tier: String(row.tier) as TierName,
      keys: Number(row.keys),
      activeKeys: Number(row.active_keys),
      rotatedAtMs: row.rotated_at_ms as number | null,
    }))
  }

  async revokeKey(keyId: string, nowMs: number): Promise<'revoked' | 'revoked before' | 'unknown'> {
    const [row] = await this.#database.query(REVOKE_KEY, [keyId, nowMs])
    if (row?.revoked) return 'revoked'
    return row?.there ? 'revoked before' : 'unknown'
  }

  async findKey(hash: string): Promise<KeyRecord | null> {
    const [row] = await this.#database.query(FIND_KEY, [hash])
    return row ? keyRecord(row) : null
  }

  async setTier(account: string, tier: TierName): Promise<boolean> {
    return (await this.#database.query(SET_TIER, [account, tier])).length > 0
  }

  async secrets(account: string): Promise<Secrets | null> {
    const [row] = await this.#database.query(SECRETS, [account])
    return row ? readSecrets(row) : null
  }

  async rotateSecret(account: string, secret: string, nowMs: number): Promise<boolean> {
    return (await this.#database.query(ROTATE_SECRET, [account, secret, nowMs])).length > 0
  }

  async hasAccounts(): Promise<boolean> {
    return (await this.#database.query(HAS_ACCOUNTS)).length > 0
  }
}

function keyRecord(row: Row): KeyRecord {
  return {
    id: String(row.id),
    account: String(row.account),
    tier: String(row.tier) as TierName,
    createdAtMs: Number(row.created_at_ms),
    expiresAtMs: row.expires_at_ms as number | null,
    revokedAtMs: row.revoked_at_ms as number | null,
  }
}

const KEYS = `select k.id, k.account, a.tier, k.created_at_ms, k.expires_at_ms, k.revoked_at_ms
  from keys k join accounts a on a.name = k.account`

const MAKE_ACCOUNT = {
  name: 'make account',
  text: 'insert into accounts (name, tier, secret) values ($1, $2, $3) on conflict (name) do nothing',
}
/** The lock keeps the tier as it is until the key is stored. */
const TIER_OF = { name: 'tier of', text: 'select tier from accounts where name = $1 for share' }
const MAKE_KEY = {
  name: 'make key',
  text: 'insert into keys (id, account, hash, created_at_ms, expires_at_ms) values ($1, $2, $3, $4, $5)',
}
const LIST_KEYS: Statement = {
  repeatable: true,
  name: 'list keys',
  text: `${KEYS} order by k.created_at_ms, k.id`,
}
/** $1 account, $2 the key to begin before, $3 limit. */
const SEARCH_KEYS: Statement = {
  repeatable: true,
  name: 'search keys',
  text: `${KEYS} where ($1::text is null or k.account = $1)
    and ($2::text is null or (k.created_at_ms, k.id) < (select created_at_ms, id from keys where id = $2))
    order by k.created_at_ms desc, k.id desc limit $3::bigint`,
}
const LIST_ACCOUNTS: Statement = {
  repeatable: true,
  name: 'list accounts',
  text: `
  select a.name, a.tier, a.rotated_at_ms, k.keys, k.active_keys
  from (select * from accounts where name > $1 order by name limit $2::bigint) a
  cross join lateral (
    select count(*) as keys,
      count(*) filter (where revoked_at_ms is null and coalesce(expires_at_ms > $3::bigint, true)) as active_keys
    from keys where account = a.name
  ) k order by a.name`,
}
const FIND_KEY: Statement = { repeatable: true, name: 'find key by hash', text: `${KEYS} where k.hash = $1` }
const REVOKE_KEY = {
  name: 'revoke key',
  text: `with now as (
      update keys set revoked_at_ms = $2 where id = $1 and revoked_at_ms is null returning id
    )
    select exists (select 1 from now) as revoked, exists (select 1 from keys where id = $1) as there`,
}
const SET_TIER: Statement = {
  repeatable: true,
  name: 'set tier',
  text: 'update accounts set tier = $2 where name = $1 returning name',
}
const SECRETS: Statement = {
  repeatable: true,
  name: 'secrets',
  text: 'select secret, previous_secret, rotated_at_ms from accounts where name = $1',
}
const ROTATE_SECRET = {
  name: 'rotate secret',
  text: `update accounts set previous_secret = secret, secret = $2, rotated_at_ms = $3 where name = $1
    returning name`,
}
const HAS_ACCOUNTS: Statement = {
  repeatable: true,
  name: 'has accounts',
  text: 'select 1 from accounts limit 1',
}
