/** Accounts and keys in Postgres. */
import type { TierName } from '../../job/tier.ts'
import { capColumns, readSecrets, STANDING_COLUMNS, withStanding } from '../account-rows.ts'
import type {
  AccountPage,
  AccountRecord,
  AccountStore,
  KeyRecord,
  KeySearch,
  NewKey,
  NewKeyResult,
  OwnCaps,
  Secrets,
} from '../account-store.ts'
import type { Database, Statement } from './database.ts'

export class PostgresAccounts implements AccountStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  createKey(key: NewKey): Promise<NewKeyResult> {
    return this.#database.transaction(async ({ query }) => {
      const [account] = await query(MAKE_ACCOUNT, [key.account, key.tier, key.secret])
      const tier = String(account?.tier) as TierName
      if (tier !== key.tier) return { kind: 'other tier', tier }
      await query(MAKE_KEY, [key.id, key.account, key.hash, key.createdAtMs, key.expiresAtMs])
      return { kind: 'created' }
    })
  }

  async listKeys(): Promise<KeyRecord[]> {
    return (await this.#database.query(LIST_KEYS)).map(withStanding<KeyRecord>)
  }

  async searchKeys({ account, beforeKeyId, limit }: KeySearch): Promise<KeyRecord[]> {
    const values = [account ?? null, beforeKeyId ?? null, limit]
    return (await this.#database.query(SEARCH_KEYS, values)).map(withStanding<KeyRecord>)
  }

  async listAccounts({ after, limit, nowMs }: AccountPage): Promise<AccountRecord[]> {
    const rows = await this.#database.query(LIST_ACCOUNTS, [after ?? '', limit, Math.floor(nowMs)])
    return rows.map(withStanding<AccountRecord>)
  }

  async revokeKey(keyId: string, nowMs: number): Promise<'revoked' | 'revoked before' | 'unknown'> {
    const [row] = await this.#database.query(REVOKE_KEY, [keyId, nowMs])
    if (row?.revoked) return 'revoked'
    return row?.there ? 'revoked before' : 'unknown'
  }

  async findKey(hash: string): Promise<KeyRecord | null> {
    const [row] = await this.#database.query(FIND_KEY, [hash])
    return row ? withStanding<KeyRecord>(row) : null
  }

  async setTier(account: string, tier: TierName): Promise<boolean> {
    return (await this.#database.query(SET_TIER, [account, tier])).length > 0
  }

  async suspend(account: string, sinceMs: number | null): Promise<boolean> {
    return (await this.#database.query(SUSPEND, [account, sinceMs])).length > 0
  }

  async setCaps(account: string, caps: OwnCaps): Promise<boolean> {
    return (await this.#database.query(SET_CAPS, [account, ...capColumns(caps)])).length > 0
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

const KEYS = `select k.id, k.account, a.tier, k.created_at_ms as "createdAtMs", k.expires_at_ms as "expiresAtMs",
  k.revoked_at_ms as "revokedAtMs", ${STANDING_COLUMNS}
  from keys k join accounts a on a.name = k.account`

/**
 * One that exists is locked until the key is stored, so that its tier stays and it is not deleted meanwhile; one that is
 * being deleted is waited for, and made anew.
 */
const MAKE_ACCOUNT = {
  name: 'make account',
  text: `insert into accounts as a (name, tier, secret) values ($1, $2, $3)
    on conflict (name) do update set tier = a.tier returning tier`,
}
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
  select a.name, a.tier, a.rotated_at_ms as "rotatedAtMs", k.keys, k."activeKeys", ${STANDING_COLUMNS}
  from (select * from accounts where name > $1 order by name limit $2::bigint) a
  cross join lateral (
    select count(*) as keys,
      count(*) filter (where revoked_at_ms is null and coalesce(expires_at_ms > $3::bigint, true)) as "activeKeys"
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
const SUSPEND: Statement = {
  repeatable: true,
  name: 'suspend',
  text: `update accounts set suspended_at_ms =
      case when $2::bigint is null then null else coalesce(suspended_at_ms, $2) end
    where name = $1 returning name`,
}
const SET_CAPS: Statement = {
  repeatable: true,
  name: 'set caps',
  text: 'update accounts set cap_jobs = $2, cap_tokens = $3 where name = $1 returning name',
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
