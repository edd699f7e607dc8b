/** Accounts and keys in Postgres. */
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
import type { AccountStore } from '../account-store.ts'
import { textOf } from '../rows.ts'
import type { Database, Statement } from './database.ts'
import { quotaUseOf } from './quotas.ts'

export function accountOperations(database: Database): AccountStore {
  return {
    createKey: (key) =>
      database.transaction(async ({ query }) => {
        const [account] = await query(MAKE_ACCOUNT, [key.account, key.tier, key.secret])
        const tier = readTier(account ?? {})
        if (tier !== key.tier) return { kind: 'other tier', tier }
        await query(MAKE_KEY, [key.id, key.account, key.hash, key.createdAtMs, key.expiresAtMs])
        return { kind: 'created' }
      }),

    listKeys: async () => (await database.query(LIST_KEYS)).map(readKey),

    listKeyHashes: async (after, limit) =>
      (await database.query(LIST_HASHES, [after, limit])).map((row) => textOf(row, 'hash')),

    searchKeys: async ({ account, beforeKeyId, limit }) => {
      const rows = await database.query(SEARCH_KEYS, [account ?? null, beforeKeyId ?? null, limit])
      return rows.map(readKey)
    },

    listAccounts: async ({ after, limit, nowMs }) => {
      const rows = await database.query(LIST_ACCOUNTS, [after ?? '', limit, Math.floor(nowMs)])
      return rows.map(readAccount)
    },

    revokeKey: async (keyId, nowMs) => {
      const [row] = await database.query(REVOKE_KEY, [keyId, nowMs])
      if (row?.revoked) return 'revoked'
      return row?.there ? 'revoked before' : 'unknown'
    },

    findKey: async (hash) => {
      const [row] = await database.query(FIND_KEY, [hash])
      return row ? readKey(row) : null
    },

    setTier: async (account, tier) => (await database.query(SET_TIER, [account, tier])).length > 0,

    suspend: async (account, sinceMs) => (await database.query(SUSPEND, [account, sinceMs])).length > 0,

    setCaps: async (account, caps) =>
      (await database.query(SET_CAPS, [account, ...capCells(caps)])).length > 0,

    secrets: async (account) => {
      const [row] = await database.query(SECRETS, [account])
      return row ? readSecrets(row) : null
    },

    rotateSecret: async (account, secret, nowMs) =>
      (await database.query(ROTATE_SECRET, [account, secret, nowMs])).length > 0,

    hasAccounts: async () => (await database.query(HAS_ACCOUNTS)).length > 0,
  }
}

const KEYS = `select ${KEY_COLUMNS} from keys k join accounts a on a.name = k.account`

/**
 * An account that exists is locked until the key is stored, so that its tier stays and it is not deleted meanwhile; one
 * that is being deleted is waited for, and then created again.
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
  select ${ACCOUNT_COLUMNS}, k.keys, k.active_keys, q.open_jobs, q.stored_bytes
  from (select * from accounts where name > $1 order by name limit $2::bigint) a
  cross join lateral (
    select count(*) as keys,
      count(*) filter (where revoked_at_ms is null and coalesce(expires_at_ms > $3::bigint, true)) as active_keys
    from keys where account = a.name
  ) k cross join lateral (${quotaUseOf('a.name')}) q order by a.name`,
}
const LIST_HASHES: Statement = {
  repeatable: true,
  name: 'list key hashes',
  text: 'select hash from keys where hash > $1 order by hash limit $2::bigint',
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
  text: `update accounts set cap_jobs = $2, cap_tokens = $3, cap_open_jobs = $4, cap_stored_bytes = $5
    where name = $1 returning name`,
}
const SECRETS: Statement = {
  repeatable: true,
  name: 'secrets',
  text: `select ${SECRET_COLUMNS} from accounts a where a.name = $1`,
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
