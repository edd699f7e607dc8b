/** What operators do straight in the file, beside a running server: no lock, no thread. */
import { DatabaseSync } from 'node:sqlite'
import type { Secrets } from '../account-store.ts'
import { searchCallbacksInSlices } from '../callback-rows.ts'
import { searchInSlices } from '../job-search.ts'
import type { OperatorStore } from '../operator-store.ts'
import { SqliteAccounts } from './accounts.ts'
import { SqliteCallbackRecords } from './callback-records.ts'
import { migrate, openFile } from './file.ts'
import { SLICE_ROWS, SqliteJobRecords } from './job-records.ts'

export function openSqliteForOperator(path: string): OperatorStore {
  const db = openFile(path)
  migrate(db)
  const accounts = new SqliteAccounts(db)
  const callbacks = new SqliteCallbackRecords(db)
  const jobs = new SqliteJobRecords(db)
  /** Each change is one short transaction, so that the server hardly waits for it. */
  const change = async <T>(work: () => T): Promise<T> => {
    db.exec('begin immediate')
    try {
      const result = work()
      db.exec('commit')
      return result
    } catch (error) {
      if (db.isTransaction) db.exec('rollback')
      throw error
    }
  }
  return {
    createKey: (key) => change(() => accounts.createKey(key)),
    listKeys: async () => accounts.listKeys(),
    searchKeys: async (search) => accounts.searchKeys(search),
    listAccounts: async (page) => accounts.listAccounts(page),
    revokeKey: (keyId, nowMs) => change(() => accounts.revokeKey(keyId, nowMs)),
    findKey: async (hash) => accounts.findKey(hash),
    setTier: (account, tier) => change(() => accounts.setTier(account, tier)),
    secrets: async (account) => accounts.secrets(account),
    rotateSecret: (account, secret, nowMs) => change(() => accounts.rotateSecret(account, secret, nowMs)),
    hasAccounts: async () => accounts.hasAccounts(),
    searchCallbacks: (filter) =>
      searchCallbacksInSlices(filter, SLICE_ROWS, async (slice) => callbacks.look(slice)),
    findCallback: async (jobId) => callbacks.find(jobId),
    replayCallback: (jobId, expiry) => change(() => callbacks.replay(jobId, expiry)),
    replayFailedCallbacks: (filter, expiry) => change(() => callbacks.replayFailed(filter, expiry)),
    searchJobs: (search) => searchInSlices(search, SLICE_ROWS, async (slice) => jobs.look(slice)),
    findJob: async (jobId, expiry) => jobs.find(jobId, expiry),
    jobContent: async (jobId, expiry) => jobs.content(jobId, expiry),
    close: async () => db.close(),
  }
}

/** How long a look may wait for a writer. */
const LOOK_MS = 5000

export function lookUpSecretsInFile(path: string, account: string): Secrets | null {
  const db = new DatabaseSync(path, { readOnly: true, timeout: LOOK_MS })
  try {
    return new SqliteAccounts(db).secrets(account)
  } finally {
    db.close()
  }
}
