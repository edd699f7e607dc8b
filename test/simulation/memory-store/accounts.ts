/** Keeps accounts, keys, usage and the audit log in the reference store. */
import type { KeyRecord, OwnCaps, Secrets } from '../../../src/store/account-store.ts'
import { WriteRejected } from '../../../src/store/store.ts'
import { MAX_OPEN_COUNTED, type QuotaUse, type UsageRecord } from '../../../src/store/usage-store.ts'
import { type AccountRow, type KeyRow, type MemoryDatabase, storedBytesOf } from './database.ts'
import { fileBytesOf } from './files.ts'
import { define } from './operations.ts'

const NO_CAPS: OwnCaps = { monthlyJobs: null, monthlyTokens: null, openJobs: null, storedBytes: null }

export function accountOperations(db: MemoryDatabase) {
  const change = (name: string, over: Partial<AccountRow>): boolean => {
    const account = db.accounts.get(name)
    if (account) Object.assign(account, over)
    return account !== undefined
  }
  return define({
    createKey({ id, hash, account: name, tier, secret, label = null, createdAtMs, expiresAtMs }) {
      const account = db.accounts.get(name)
      if (account && account.tier !== tier) return { kind: 'other tier', tier: account.tier }
      const isThere = [...db.keys.values()].some((key) => key.id === id || key.hash === hash)
      if (isThere) throw new WriteRejected(`the key ${id} exists`)
      if (!account) {
        const none = {
          previousSecret: null,
          rotatedAtMs: null,
          suspendedAtMs: null,
          webhookUrl: null,
          caps: NO_CAPS,
        }
        db.accounts.set(name, { name, tier, secret, ...none })
      }
      db.keys.set(id, { id, hash, account: name, label, createdAtMs, expiresAtMs, revokedAtMs: null })
      return { kind: 'created' }
    },

    noteKeyUses(keyIds, hourMs) {
      for (const id of keyIds) {
        const key = db.keys.get(id)
        if (key && (key.usedAtMs ?? -1) < hourMs) db.keys.set(id, { ...key, usedAtMs: hourMs })
      }
    },

    findKey(hash) {
      const key = [...db.keys.values()].find((one) => one.hash === hash)
      return key === undefined ? null : keyRecord(db, key)
    },

    suspend(name, sinceMs) {
      const before = db.accounts.get(name)?.suspendedAtMs ?? null
      return change(name, { suspendedAtMs: sinceMs === null ? null : (before ?? sinceMs) })
    },

    setCaps(name, given) {
      const { monthlyCost, ...caps } = { ...NO_CAPS, ...db.accounts.get(name)?.caps, ...given }
      return change(name, { caps: { ...caps, ...(typeof monthlyCost === 'number' && { monthlyCost }) } })
    },

    secrets(name) {
      const account = db.accounts.get(name)
      return account === undefined ? null : secretsOf(account)
    },

    rotateSecret(name, secret, nowMs) {
      const previousSecret = db.accounts.get(name)?.secret ?? null
      return change(name, { previousSecret, secret, rotatedAtMs: nowMs })
    },

    deleteAccount(name, usageAs) {
      if ([...db.open].some(({ job }) => job.account === name)) return 'has open jobs'
      for (const key of [...db.keys.values()]) if (key.account === name) db.keys.delete(key.id)
      for (const [id, { account }] of db.idempotency) if (account === name) db.idempotency.delete(id)
      for (const [id, row] of db.usage) {
        if (row.account !== name) continue
        db.usage.delete(id)
        db.usage.set(`${usageAs} ${id}`, { ...row, account: usageAs })
      }
      for (const row of db.jobs.values()) {
        if (row.job.account !== name) continue
        row.callback = null
        db.owed.delete(row)
      }
      return db.accounts.delete(name) ? 'deleted' : 'unknown'
    },
  })
}

export function usageOperations(db: MemoryDatabase) {
  return define({
    listUsage({ account, month, after, limit }) {
      const rows = [...db.usage.values()].sort(byMonth)
      return rows
        .filter((row) => after === undefined || byMonth(after, row) < 0)
        .filter((row) => account === undefined || row.account === account)
        .filter((row) => month === undefined || row.month === month)
        .slice(0, limit)
        .map((row) => ({ ...row }))
    },

    used(account, month) {
      const rows = [...db.usage.values()].filter((row) => row.account === account && row.month === month)
      return {
        jobs: rows.reduce((sum, { jobs }) => sum + jobs, 0),
        openJobs: Math.min(openOf(db, account), MAX_OPEN_COUNTED),
        tokens: rows.reduce((sum, { inputTokens, outputTokens }) => sum + inputTokens + outputTokens, 0),
      }
    },

    quotaUse: (account) => quotaUse(db, account),
  })
}

function quotaUse(db: MemoryDatabase, account: string): QuotaUse {
  let storedBytes = 0
  for (const row of db.jobs.values()) if (row.job.account === account) storedBytes += storedBytesOf(row)
  for (const row of db.files.values()) if (row.account === account) storedBytes += fileBytesOf(row)
  let reserved = 0
  for (const { job } of db.open) if (job.account === account) reserved += job.reserved ?? 0
  return { openJobs: openOf(db, account), storedBytes, ...(reserved > 0 && { reserved }) }
}

function openOf(db: MemoryDatabase, account: string): number {
  return [...db.open].filter(({ job }) => job.account === account).length
}

function keyRecord(db: MemoryDatabase, { hash: _, ...key }: KeyRow): KeyRecord {
  const { tier, suspendedAtMs, webhookUrl, caps } = db.accounts.get(key.account) ?? {
    tier: '',
    suspendedAtMs: null,
    webhookUrl: null,
    caps: NO_CAPS,
  }
  return { usedAtMs: null, ...key, tier, suspendedAtMs, webhookUrl, caps }
}

export function secretsOf({ secret, previousSecret, rotatedAtMs }: AccountRow): Secrets {
  const previous =
    previousSecret === null || rotatedAtMs === null ? null : { secret: previousSecret, rotatedAtMs }
  return { current: secret, previous }
}

type UsageKey = Pick<UsageRecord, 'account' | 'month' | 'model'>

function byMonth(one: UsageKey, other: UsageKey): number {
  if (one.month !== other.month) return one.month > other.month ? -1 : 1
  if (one.account !== other.account) return one.account < other.account ? -1 : 1
  return one.model === other.model ? 0 : one.model < other.model ? -1 : 1
}
