/** Accounts, keys, usage and the audit log in the reference store. */
import type {
  AccountPage,
  AccountRecord,
  AdminTokenRecord,
  KeyRecord,
  KeyRotation,
  KeySearch,
  NewAdminToken,
  NewKey,
  NewKeyResult,
  OwnCaps,
  RevokeResult,
  RotatedKey,
  Secrets,
} from '../../../src/store/account-store.ts'
import type { AccountDeleted } from '../../../src/store/admin-action-store.ts'
import type { AuditEntry, AuditSearch, NewAuditEntry } from '../../../src/store/audit-store.ts'
import { WriteRejected } from '../../../src/store/store.ts'
import {
  MAX_OPEN_COUNTED,
  type QuotaUse,
  type UsageRecord,
  type UsageSearch,
  type Used,
} from '../../../src/store/usage-store.ts'
import { type AccountRow, type KeyRow, type MemoryDatabase, storedBytesOf } from './database.ts'
import { fileBytesOf } from './files.ts'

const NO_CAPS: OwnCaps = { monthlyJobs: null, monthlyTokens: null, openJobs: null, storedBytes: null }

export function accountOperations(db: MemoryDatabase) {
  const change = (name: string, over: Partial<AccountRow>): boolean => {
    const account = db.accounts.get(name)
    if (account) Object.assign(account, over)
    return account !== undefined
  }
  return {
    createKey({
      id,
      hash,
      account: name,
      tier,
      secret,
      label = null,
      createdAtMs,
      expiresAtMs,
    }: NewKey): NewKeyResult {
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

    listKeys: (): KeyRecord[] => [...db.keys.values()].sort(byAge).map((key) => keyRecord(db, key)),

    listKeyHashes: (after: string, limit: number): string[] =>
      [...db.keys.values()]
        .map(({ hash }) => hash)
        .filter((hash) => hash > after)
        .sort()
        .slice(0, limit),

    searchKeys({ account, beforeKeyId, limit }: KeySearch): KeyRecord[] | null {
      const newestFirst = [...db.keys.values()].sort(byAge).reverse()
      const last = newestFirst.findIndex(({ id }) => id === beforeKeyId)
      if (beforeKeyId !== undefined && last < 0) return null
      return newestFirst
        .slice(last + 1)
        .filter((key) => account === undefined || key.account === account)
        .slice(0, limit)
        .map((key) => keyRecord(db, key))
    },

    listAccounts({ after = '', limit, nowMs }: AccountPage): AccountRecord[] {
      return [...db.accounts.values()]
        .filter(({ name }) => name > after)
        .sort((one, other) => (one.name < other.name ? -1 : 1))
        .slice(0, limit)
        .map(({ name, tier, rotatedAtMs, suspendedAtMs, webhookUrl, caps }) => {
          const keys = [...db.keys.values()].filter(({ account }) => account === name)
          const isActive = ({ revokedAtMs, expiresAtMs }: KeyRow) =>
            revokedAtMs === null && (expiresAtMs === null || expiresAtMs > nowMs)
          return {
            name,
            tier,
            keys: keys.length,
            activeKeys: keys.filter(isActive).length,
            rotatedAtMs,
            suspendedAtMs,
            webhookUrl,
            caps,
            quotaUse: quotaUse(db, name),
          }
        })
    },

    revokeKey(keyId: string, nowMs: number): RevokeResult {
      const key = db.keys.get(keyId)
      if (key === undefined) return 'unknown'
      if (key.revokedAtMs !== null) return 'revoked before'
      key.revokedAtMs = nowMs
      return 'revoked'
    },

    rotateKey({ keyId, newId, newHash, nowMs, graceMs }: KeyRotation): RotatedKey {
      const key = db.keys.get(keyId)
      if (key === undefined) return { kind: 'unknown' }
      const { account, label, createdAtMs, expiresAtMs, revokedAtMs } = key
      if (revokedAtMs !== null || (expiresAtMs ?? Number.POSITIVE_INFINITY) <= nowMs)
        return { kind: 'not active' }
      const oldExpiresAtMs = Math.min(expiresAtMs ?? Number.POSITIVE_INFINITY, nowMs + graceMs)
      const isSuccessor = (one: KeyRow) =>
        expiresAtMs !== null &&
        one.account === account &&
        one.label === label &&
        one.createdAtMs > createdAtMs &&
        (expiresAtMs - one.createdAtMs) % 12_000 === 0
      const lasting = [...db.keys.values()].find(isSuccessor) ?? { createdAtMs, expiresAtMs }
      db.keys.set(keyId, { ...key, expiresAtMs: oldExpiresAtMs })
      const made = {
        id: newId,
        hash: newHash,
        account,
        label,
        createdAtMs: nowMs,
        expiresAtMs:
          lasting.expiresAtMs === null ? null : nowMs + (lasting.expiresAtMs - lasting.createdAtMs),
        revokedAtMs: null,
      }
      db.keys.set(newId, made)
      return { kind: 'rotated', newKey: keyRecord(db, made), oldExpiresAtMs }
    },

    noteKeyUses(keyIds: readonly string[], hourMs: number): void {
      for (const id of keyIds) {
        const key = db.keys.get(id)
        if (key && (key.usedAtMs ?? -1) < hourMs) db.keys.set(id, { ...key, usedAtMs: hourMs })
      }
    },

    findKey(hash: string): KeyRecord | null {
      const key = [...db.keys.values()].find((one) => one.hash === hash)
      return key === undefined ? null : keyRecord(db, key)
    },

    setTier: (name: string, tier: string): boolean => change(name, { tier }),

    suspend(name: string, sinceMs: number | null): boolean {
      const before = db.accounts.get(name)?.suspendedAtMs ?? null
      return change(name, { suspendedAtMs: sinceMs === null ? null : (before ?? sinceMs) })
    },

    setWebhook: (name: string, webhookUrl: string | null): boolean => change(name, { webhookUrl }),

    setCaps(name: string, given: Partial<OwnCaps>): boolean {
      const { monthlyCost, ...caps } = { ...NO_CAPS, ...db.accounts.get(name)?.caps, ...given }
      return change(name, { caps: { ...caps, ...(typeof monthlyCost === 'number' && { monthlyCost }) } })
    },

    secrets(name: string): Secrets | null {
      const account = db.accounts.get(name)
      return account === undefined ? null : secretsOf(account)
    },

    rotateSecret(name: string, secret: string, nowMs: number): boolean {
      const previousSecret = db.accounts.get(name)?.secret ?? null
      return change(name, { previousSecret, secret, rotatedAtMs: nowMs })
    },

    hasAccounts: (): boolean => db.accounts.size > 0,

    deleteAccount(name: string, usageAs: string): AccountDeleted {
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

    ...usageOperations(db),
    ...auditOperations(db),
    ...adminTokenOperations(db),
  }
}

function usageOperations(db: MemoryDatabase) {
  return {
    listUsage({ account, month, after, limit }: UsageSearch): UsageRecord[] {
      const rows = [...db.usage.values()].sort(byMonth)
      return rows
        .filter((row) => after === undefined || byMonth(after, row) < 0)
        .filter((row) => account === undefined || row.account === account)
        .filter((row) => month === undefined || row.month === month)
        .slice(0, limit)
        .map((row) => ({ ...row }))
    },

    used(account: string, month: string): Used {
      const rows = [...db.usage.values()].filter((row) => row.account === account && row.month === month)
      return {
        jobs: rows.reduce((sum, { jobs }) => sum + jobs, 0),
        openJobs: Math.min(openOf(db, account), MAX_OPEN_COUNTED),
        tokens: rows.reduce((sum, { inputTokens, outputTokens }) => sum + inputTokens + outputTokens, 0),
      }
    },

    quotaUse: (account: string) => quotaUse(db, account),
  }
}

function adminTokenOperations(db: MemoryDatabase) {
  return {
    createAdminToken(token: NewAdminToken): 'created' | 'name taken' {
      const isTaken = [...db.adminTokens.values()].some(
        ({ name, revokedAtMs }) => name === token.name && revokedAtMs === null,
      )
      if (isTaken) return 'name taken'
      db.adminTokens.set(token.id, { ...token, revokedAtMs: null })
      return 'created'
    },

    listAdminTokens: (): AdminTokenRecord[] =>
      [...db.adminTokens.values()].sort(
        (one, other) => one.createdAtMs - other.createdAtMs || (one.id < other.id ? -1 : 1),
      ),

    revokeAdminToken(tokenId: string, nowMs: number): RevokeResult {
      const token = db.adminTokens.get(tokenId)
      if (token === undefined) return 'unknown'
      if (token.revokedAtMs !== null) return 'revoked before'
      db.adminTokens.set(tokenId, { ...token, revokedAtMs: nowMs })
      return 'revoked'
    },
  }
}

function auditOperations(db: MemoryDatabase) {
  const nameOf = (account: NewAuditEntry['account']): string | null => {
    if (account === null || typeof account === 'string') return account
    if ('ofKey' in account) return db.keys.get(account.ofKey)?.account ?? null
    if ('ofBatch' in account) return db.batches.get(account.ofBatch)?.account ?? null
    return db.jobs.get(account.ofJob)?.job.account ?? null
  }
  return {
    addAuditEntry({ account, ...entry }: NewAuditEntry): void {
      if (db.audit.has(entry.id)) throw new WriteRejected(`the entry ${entry.id} exists`)
      db.audit.set(entry.id, { ...entry, account: nameOf(account), outcome: null })
    },

    endAuditEntry(entryId: string, outcome: string): void {
      const entry = db.audit.get(entryId)
      if (entry) db.audit.set(entryId, { ...entry, outcome })
    },

    listAuditEntries({ account, beforeEntryId, limit }: AuditSearch): AuditEntry[] {
      return [...db.audit.values()]
        .filter((entry) => account === undefined || entry.account === account)
        .filter(({ id }) => beforeEntryId === undefined || id < beforeEntryId)
        .sort((one, other) => (one.id > other.id ? -1 : 1))
        .slice(0, limit)
    },
  }
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

function byAge(one: KeyRow, other: KeyRow): number {
  return one.createdAtMs - other.createdAtMs || (one.id < other.id ? -1 : 1)
}

type UsageKey = Pick<UsageRecord, 'account' | 'month' | 'model'>

/** Orders usage by month, newest first, then by account and model. */
function byMonth(one: UsageKey, other: UsageKey): number {
  if (one.month !== other.month) return one.month > other.month ? -1 : 1
  if (one.account !== other.account) return one.account < other.account ? -1 : 1
  return one.model === other.model ? 0 : one.model < other.model ? -1 : 1
}
