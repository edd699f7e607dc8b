/** Defines what operators see of accounts, keys and usage, and converts records of the store. Times are Unix seconds. */
import { amountOf, microsOf } from '../job/amount.ts'
import type { AccountRecord, AccountStore, KeyRecord, OwnCap, OwnCaps } from '../store/account-store.ts'
import type { UsageRecord } from '../store/usage-store.ts'
import { type Static, Type } from '../typed-schema.ts'
import { count, more, next, originOf, textOrNull, unixTime, unixTimeOrNull, wholeSeconds } from './fields.ts'

const cap = (description: string) =>
  Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Enum(['none', 'tier'])], {
    description: `${description}; \`none\` removes the cap, \`tier\` restores the tier's cap.`,
  })

const MAX_AMOUNT = 1_000_000_000

export const caps = {
  max_monthly_jobs: cap('Jobs in a calendar month (UTC)'),
  max_monthly_tokens: cap('Input and output tokens in a calendar month (UTC)'),
  max_monthly_cost: Type.Optional(
    Type.Union([Type.Number({ minimum: 0, maximum: MAX_AMOUNT }), Type.Enum(['none', 'tier'])], {
      description:
        "Cost in a calendar month (UTC), in the currency; `none` removes the cap, `tier` restores the tier's cap. Absent in responses for that of the tier.",
    }),
  ),
  max_open_jobs: cap('Jobs that are queued or running at the same time'),
  max_stored_bytes: cap('Bytes stored by jobs until they expire or are deleted'),
}
const capsSchema = Type.Object(caps)
export type Caps = Static<typeof capsSchema>
export type Cap = Caps['max_monthly_jobs']

export const account = Type.Object({
  name: Type.String(),
  tier: Type.String(),
  keys: count,
  active_keys: Type.Integer({ description: 'Keys that are neither revoked nor expired.' }),
  secret_rotated_at: unixTimeOrNull('When its signing secret was last rotated'),
  suspended_at: unixTimeOrNull('When it was suspended'),
  webhook_url: textOrNull(
    'Where events of its jobs are sent, without the path for a read-only admin token; null for nowhere.',
  ),
  ...caps,
  open_jobs: Type.Integer({ minimum: 0, description: 'Queued and running jobs.' }),
  stored_bytes: Type.Integer({ minimum: 0, description: 'Bytes stored by its jobs.' }),
})
export type Account = Static<typeof account>

export const accountList = Type.Object({
  accounts: Type.Array(account, { description: 'By name.' }),
  more,
})
export type AccountList = Static<typeof accountList>

export function accountView(record: AccountRecord, readOnly: boolean): Account {
  const { name, tier, keys, activeKeys, rotatedAtMs, suspendedAtMs, webhookUrl, caps: own, quotaUse } = record
  return {
    name,
    tier,
    keys,
    active_keys: activeKeys,
    secret_rotated_at: wholeSeconds(rotatedAtMs),
    suspended_at: wholeSeconds(suspendedAtMs),
    webhook_url: readOnly && webhookUrl !== null ? originOf(webhookUrl) : webhookUrl,
    ...capsView(own),
    open_jobs: quotaUse.openJobs,
    stored_bytes: quotaUse.storedBytes,
  }
}

export function capsView({
  monthlyJobs,
  monthlyTokens,
  monthlyCost = null,
  openJobs,
  storedBytes,
}: OwnCaps): Caps {
  const textOf = (own: OwnCap): Cap => own ?? 'tier'
  return {
    max_monthly_jobs: textOf(monthlyJobs),
    max_monthly_tokens: textOf(monthlyTokens),
    ...(monthlyCost !== null && {
      max_monthly_cost: monthlyCost === 'none' ? monthlyCost : amountOf(monthlyCost),
    }),
    max_open_jobs: textOf(openJobs),
    max_stored_bytes: textOf(storedBytes),
  }
}

/** Caps that are absent stay absent. */
export function ownCapsOf(given: Partial<Caps>): Partial<OwnCaps> {
  const { max_monthly_cost: cost } = given
  const caps: Readonly<Record<keyof OwnCaps, Cap | undefined>> = {
    monthlyJobs: given.max_monthly_jobs,
    monthlyTokens: given.max_monthly_tokens,
    monthlyCost: typeof cost === 'number' ? microsOf(cost) : cost,
    openJobs: given.max_open_jobs,
    storedBytes: given.max_stored_bytes,
  }
  const own = Object.entries(caps).flatMap(([name, cap]): [string, OwnCap][] =>
    cap === undefined ? [] : [[name, cap === 'tier' ? null : cap]],
  )
  return Object.fromEntries(own)
}

const PAGE_SIZE = 50

/**
 * Searches from the name without its last character, which every collation sorts before the name. Returns null if not found.
 */
export async function findAccount(
  store: Pick<AccountStore, 'listAccounts'>,
  name: string,
  nowMs: number,
): Promise<AccountRecord | null> {
  for (let after = name.slice(0, -1); ; ) {
    const page = await store.listAccounts({ after, limit: PAGE_SIZE, nowMs })
    const found = page.find((one) => one.name === name)
    const last = page.at(-1)
    if (found || !last || page.length < PAGE_SIZE) return found ?? null
    after = last.name
  }
}

export const key = Type.Object({
  id: Type.String(),
  account: Type.String(),
  label: textOrNull('What the operator calls it; null for no label.'),
  tier: Type.String(),
  created_at: unixTime('When it was created'),
  expires_at: unixTimeOrNull('When it expires'),
  revoked_at: unixTimeOrNull('When it was revoked'),
  last_used_at: unixTimeOrNull('The hour in which it was last used, or null if it never was'),
})
export type Key = Static<typeof key>

export const keyList = Type.Object({ keys: Type.Array(key, { description: 'Newest first.' }), more })
export type KeyList = Static<typeof keyList>

export const newKey = Type.Object({
  id: Type.String(),
  key: Type.String({ description: 'The key. It cannot be shown again.' }),
  account: Type.String(),
  label: textOrNull('What the operator calls it; null for no label.'),
  tier: Type.String(),
  expires_at: unixTimeOrNull('When it expires'),
})
export type NewKey = Static<typeof newKey>

export const rotatedKey = Type.Object({
  ...newKey.properties,
  old_key: Type.Object({ id: Type.String(), expires_at: unixTime('When it stops working') }),
})
export type RotatedKey = Static<typeof rotatedKey>

export function keyView(record: KeyRecord): Key {
  const { id, account, label, tier, createdAtMs, expiresAtMs, revokedAtMs, usedAtMs } = record
  return {
    id,
    account,
    label,
    tier,
    created_at: Math.floor(createdAtMs / 1000),
    expires_at: wholeSeconds(expiresAtMs),
    revoked_at: wholeSeconds(revokedAtMs),
    last_used_at: wholeSeconds(usedAtMs),
  }
}

const sum = (description: string) => Type.Integer({ minimum: 0, description })

export const usageSums = {
  jobs: sum('Finished jobs, including failed ones.'),
  failed_jobs: sum('Jobs that failed.'),
  cache_hits: sum('Jobs that were completed from a cached response instead of a call.'),
  calls: sum('Calls to model servers.'),
  input_tokens: sum('As counted by the model servers.'),
  output_tokens: sum('As counted by the model servers.'),
}
export const costSum = Type.Optional(
  sum('What the calls cost, in millionths of the currency. Absent if the models have no price.'),
)
const sumsSchema = Type.Object({ ...usageSums, cost: costSum })
export type UsageSums = Static<typeof sumsSchema>

const usageRow = Type.Object({
  account: Type.String(),
  month: Type.String({ description: 'The month in UTC, as YYYY-MM.' }),
  model: Type.String({ description: 'The public model name that callers requested.' }),
  ...usageSums,
  cost: costSum,
})
export type UsageRow = Static<typeof usageRow>

export const usageList = Type.Object({
  usage: Type.Array(usageRow, { description: 'Newest month first, then by account and model.' }),
  currency: Type.Optional(
    Type.String({ description: 'The currency of all costs; absent if none is configured.' }),
  ),
  more,
  next: next('after'),
})
export type UsageList = Static<typeof usageList>

export function usageView(record: UsageRecord): UsageSums {
  const { jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens, cost } = record
  return {
    jobs,
    failed_jobs: failedJobs,
    cache_hits: cacheHits,
    calls,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    ...(cost !== undefined && { cost }),
  }
}

export function usageRowView(record: UsageRecord): UsageRow {
  const { account, month, model } = record
  return { account, month, model, ...usageView(record) }
}

export const USAGE_FIELDS = Object.keys(usageSums) as (keyof typeof usageSums)[]

export function sumOf(rows: readonly UsageSums[]): UsageSums {
  const sums = USAGE_FIELDS.map((name) => [name, rows.reduce((all, row) => all + row[name], 0)])
  const costs = rows.flatMap(({ cost }) => cost ?? [])
  const cost = costs.length === 0 ? {} : { cost: costs.reduce((all, one) => all + one) }
  return { ...Object.fromEntries(sums), ...cost } as UsageSums
}
