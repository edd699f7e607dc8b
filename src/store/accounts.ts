/** Both stores share this SQL, which lists and suspends accounts, and changes their tiers, caps, webhook URLs and secrets. */
import type { AccountPage, AccountRecord, OwnCap, OwnCaps, Secrets } from './account-store.ts'
import type { Dialect } from './dialect.ts'
import { numberOf, numberOrNull, type Row, textOf, textOrNull } from './rows.ts'
import { read, repeatableWrite, type Sql, type Steps, sql, write } from './sql.ts'
import { fileBytesOf, readQuotaUse } from './usage.ts'

export const accountOperations = ({ joinQuotaUse }: Dialect) => ({
  listAccounts: read(function* ({ after = '', limit, nowMs }: AccountPage): Steps<AccountRecord[]> {
    const rows = yield sql`
      select a.name, a.tier, a.rotated_at_ms, a.suspended_at_ms, a.webhook_url, ${ACCOUNT_CAPS},
        (select count(*) from keys k where k.account = a.name) as keys,
        (select count(*) from keys k where k.account = a.name and k.revoked_at_ms is null
          and coalesce(k.expires_at_ms > ${Math.floor(nowMs)}, true)) as active_keys,
        coalesce(q.open_jobs, 0) as open_jobs, coalesce(q.stored_bytes, 0) as stored_bytes, coalesce(q.reserved, 0) as reserved,
        ${fileBytesOf(sql`a.name`)} as file_bytes
      from (select * from accounts where name > ${after} order by name limit ${limit}) a ${joinQuotaUse}
      order by a.name`
    return rows.map(readAccount)
  }),

  setTier: repeatableWrite(function* (account: string, tier: string): Steps<boolean> {
    return (yield sql`update accounts set tier = ${tier} where name = ${account} returning name`).length > 0
  }),

  suspend: repeatableWrite(function* (account: string, sinceMs: number | null): Steps<boolean> {
    const since = sinceMs === null ? sql`null` : sql`coalesce(suspended_at_ms, ${sinceMs})`
    const rows =
      yield sql`update accounts set suspended_at_ms = ${since} where name = ${account} returning name`
    return rows.length > 0
  }),

  setCaps: repeatableWrite(function* (account: string, caps: Partial<OwnCaps>): Steps<boolean> {
    const rows = yield sql`
      update accounts set cap_jobs = ${newCell(caps.monthlyJobs, sql`cap_jobs`)},
        cap_tokens = ${newCell(caps.monthlyTokens, sql`cap_tokens`)},
        cap_open_jobs = ${newCell(caps.openJobs, sql`cap_open_jobs`)},
        cap_stored_bytes = ${newCell(caps.storedBytes, sql`cap_stored_bytes`)},
        cap_cost = ${newCell(caps.monthlyCost, sql`cap_cost`)}
      where name = ${account} returning name`
    return rows.length > 0
  }),

  setWebhook: repeatableWrite(function* (account: string, url: string | null): Steps<boolean> {
    return (
      (yield sql`update accounts set webhook_url = ${url} where name = ${account} returning name`).length > 0
    )
  }),

  secrets: read(function* (account: string): Steps<Secrets | null> {
    const [row] =
      yield sql`select secret, previous_secret, rotated_at_ms from accounts where name = ${account}`
    return row ? readSecrets(row) : null
  }),

  rotateSecret: write(function* (account: string, secret: string, nowMs: number): Steps<boolean> {
    const rows = yield sql`
      update accounts set previous_secret = secret, secret = ${secret}, rotated_at_ms = ${nowMs}
      where name = ${account} returning name`
    return rows.length > 0
  }),

  hasAccounts: read(function* (): Steps<boolean> {
    return (yield sql`select 1 from accounts limit 1`).length > 0
  }),
})

export const ACCOUNT_CAPS = sql`a.cap_jobs, a.cap_tokens, a.cap_open_jobs, a.cap_stored_bytes, a.cap_cost`

export function readSecrets(row: Row): Secrets {
  const { previous_secret: previous } = row
  return {
    current: textOf(row, 'secret'),
    previous:
      previous === null
        ? null
        : { secret: textOf(row, 'previous_secret'), rotatedAtMs: numberOf(row, 'rotated_at_ms') },
  }
}

function readAccount(row: Row): AccountRecord {
  return {
    name: textOf(row, 'name'),
    tier: readTier(row),
    keys: numberOf(row, 'keys'),
    activeKeys: numberOf(row, 'active_keys'),
    rotatedAtMs: numberOrNull(row, 'rotated_at_ms'),
    ...readStanding(row),
    quotaUse: readQuotaUse(row),
  }
}

/** The settings of this node may lack this tier. `Tiers.of` then returns a tier that permits no model. */
export function readTier(row: Row): string {
  return textOf(row, 'tier')
}

export function readStanding(row: Row): Pick<AccountRecord, 'suspendedAtMs' | 'webhookUrl' | 'caps'> {
  return {
    suspendedAtMs: numberOrNull(row, 'suspended_at_ms'),
    webhookUrl: textOrNull(row, 'webhook_url'),
    caps: readCaps(row),
  }
}

export function readCaps(row: Row): OwnCaps {
  const monthlyCost = readCap(row, 'cap_cost')
  return {
    monthlyJobs: readCap(row, 'cap_jobs'),
    monthlyTokens: readCap(row, 'cap_tokens'),
    openJobs: readCap(row, 'cap_open_jobs'),
    storedBytes: readCap(row, 'cap_stored_bytes'),
    ...(monthlyCost !== null && { monthlyCost }),
  }
}

const NO_CAP = -1

function readCap(row: Row, column: string): OwnCap {
  const cap = numberOrNull(row, column)
  return cap === NO_CAP ? 'none' : cap
}

function newCell(cap: OwnCap | undefined, column: Sql): Sql {
  return cap === undefined ? column : sql`${cap === 'none' ? NO_CAP : cap}`
}
