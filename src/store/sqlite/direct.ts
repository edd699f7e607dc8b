/**
 * What the contract asks for that is one call in the file: run by the storage thread for a server, and by commands where
 * they are. Synchronous; the writes are called inside a transaction.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Store } from '../store.ts'
import { SqliteAccounts } from './accounts.ts'
import { SqliteInterventions } from './admin-actions.ts'
import { SqliteAudit } from './audit.ts'
import { SqliteCallbackRecords } from './callback-records.ts'
import { SqliteJobRecords } from './job-records.ts'
import type { SqliteUsage } from './usage.ts'

export const DIRECT_READS = [
  'listKeys',
  'searchKeys',
  'listAccounts',
  'findKey',
  'secrets',
  'hasAccounts',
  'findCallback',
  'findJob',
  'jobContent',
  'listUsage',
  'used',
  'listAuditEntries',
] as const

export const DIRECT_WRITES = [
  'createKey',
  'revokeKey',
  'setTier',
  'suspend',
  'setCaps',
  'rotateSecret',
  'replayCallback',
  'replayFailedCallbacks',
  'cancelJob',
  'cancelJobs',
  'deleteJob',
  'deleteJobsOf',
  'deleteAccount',
  'addAuditEntry',
  'endAuditEntry',
] as const

export type DirectName = (typeof DIRECT_READS)[number] | (typeof DIRECT_WRITES)[number]

type Synchronous<Method> = Method extends (...args: infer Args) => Promise<infer Result>
  ? (...args: Args) => Result
  : never
export type Direct = { readonly [Name in DirectName]: Synchronous<Store[Name]> }

/** An operation of that name, as it crosses to the storage thread. */
export type DirectOperation = {
  [Name in DirectName]: readonly [Name, ...Parameters<Store[Name]>]
}[DirectName]

export function directOn(db: DatabaseSync, usage: SqliteUsage): Direct {
  const accounts = new SqliteAccounts(db)
  const callbacks = new SqliteCallbackRecords(db)
  const jobs = new SqliteJobRecords(db)
  const interventions = new SqliteInterventions(db, usage)
  const audit = new SqliteAudit(db)
  return {
    listKeys: () => accounts.listKeys(),
    searchKeys: (search) => accounts.searchKeys(search),
    listAccounts: (page) => accounts.listAccounts(page),
    findKey: (hash) => accounts.findKey(hash),
    secrets: (account) => accounts.secrets(account),
    hasAccounts: () => accounts.hasAccounts(),
    createKey: (key) => accounts.createKey(key),
    revokeKey: (keyId, nowMs) => accounts.revokeKey(keyId, nowMs),
    setTier: (account, tier) => accounts.setTier(account, tier),
    suspend: (account, sinceMs) => accounts.suspend(account, sinceMs),
    setCaps: (account, caps) => accounts.setCaps(account, caps),
    rotateSecret: (account, secret, nowMs) => accounts.rotateSecret(account, secret, nowMs),
    findCallback: (jobId) => callbacks.find(jobId),
    replayCallback: (jobId, expiry) => callbacks.replay(jobId, expiry),
    replayFailedCallbacks: (filter, expiry) => callbacks.replayFailed(filter, expiry),
    findJob: (jobId, expiry) => jobs.find(jobId, expiry),
    jobContent: (jobId, expiry) => jobs.content(jobId, expiry),
    listUsage: (search) => usage.list(search),
    used: (account, month) => usage.used(account, month),
    cancelJob: (jobId, nowMs) => interventions.cancelJob(jobId, nowMs),
    cancelJobs: (which) => interventions.cancelJobs(which),
    deleteJob: (jobId) => interventions.deleteJob(jobId),
    deleteJobsOf: (account, afterJobId) => interventions.deleteJobsOf(account, afterJobId),
    deleteAccount: (account) => interventions.deleteAccount(account),
    addAuditEntry: (act) => audit.note(act),
    endAuditEntry: (actId, outcome) => audit.end(actId, outcome),
    listAuditEntries: (search) => audit.list(search),
  }
}

/** The same as promises, each sent as the operation of its name. */
export function directBy(
  read: (operation: DirectOperation) => Promise<unknown>,
  write: (operation: DirectOperation) => Promise<unknown>,
): Pick<Store, DirectName> {
  const sentBy = (names: readonly DirectName[], send: typeof read) =>
    names.map((name) => [name, (...args: unknown[]) => send([name, ...args] as unknown as DirectOperation)])
  return Object.fromEntries([...sentBy(DIRECT_READS, read), ...sentBy(DIRECT_WRITES, write)])
}
