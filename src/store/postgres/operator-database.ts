/** What operators do straight in the database, beside running servers. */
import type { Secrets } from '../account-store.ts'
import type { OperatorStore } from '../operator-store.ts'
import { PostgresAccounts } from './accounts.ts'
import { PostgresCallbackRecords } from './callback-records.ts'
import { Database } from './database.ts'
import { PostgresJobRecords } from './job-records.ts'
import { migratePostgres } from './schema.ts'

/** A command's statements are short, but its user may wait for a lock. */
const COMMAND_MS = 30_000
const LOOK_MS = 5000

export async function openPostgresForOperator(url: string): Promise<OperatorStore> {
  await migratePostgres(url)
  const database = new Database({ url, connections: 1, prepare: false, statementMs: COMMAND_MS })
  const accounts = new PostgresAccounts(database)
  const callbacks = new PostgresCallbackRecords(database)
  const jobs = new PostgresJobRecords(database)
  return {
    createKey: (key) => accounts.createKey(key),
    listKeys: () => accounts.listKeys(),
    searchKeys: (search) => accounts.searchKeys(search),
    listAccounts: (page) => accounts.listAccounts(page),
    revokeKey: (keyId, nowMs) => accounts.revokeKey(keyId, nowMs),
    findKey: (hash) => accounts.findKey(hash),
    setTier: (account, tier) => accounts.setTier(account, tier),
    secrets: (account) => accounts.secrets(account),
    rotateSecret: (account, secret, nowMs) => accounts.rotateSecret(account, secret, nowMs),
    hasAccounts: () => accounts.hasAccounts(),
    searchCallbacks: (filter) => callbacks.searchCallbacks(filter),
    findCallback: (jobId) => callbacks.findCallback(jobId),
    replayCallback: (jobId, expiry) => callbacks.replayCallback(jobId, expiry),
    replayFailedCallbacks: (filter, expiry) => callbacks.replayFailedCallbacks(filter, expiry),
    searchJobs: (search) => jobs.searchJobs(search),
    findJob: (jobId, expiry) => jobs.findJob(jobId, expiry),
    jobContent: (jobId, expiry) => jobs.jobContent(jobId, expiry),
    close: () => database.close(),
  }
}

export async function lookUpSecretsInPostgres(url: string, account: string): Promise<Secrets | null> {
  const database = new Database({ url, connections: 1, prepare: false, statementMs: LOOK_MS })
  try {
    return await new PostgresAccounts(database).secrets(account)
  } finally {
    await database.close()
  }
}
