/** What operators do straight in the file, beside a running server: no lock, no thread. */
import { DatabaseSync } from 'node:sqlite'
import type { Secrets } from '../account-store.ts'
import { searchCallbacksByChunk } from '../callback-rows.ts'
import { searchJobsByChunk } from '../job-search.ts'
import type { OperatorStore } from '../operator-store.ts'
import { SqliteAccounts } from './accounts.ts'
import { SqliteCallbackRecords } from './callback-records.ts'
import { type DirectOperation, directBy, directOn } from './direct.ts'
import { migrate, openFile, scrub } from './file.ts'
import { SLICE_ROWS, SqliteJobRecords } from './job-records.ts'
import { SqliteUsage } from './usage.ts'

export function openSqliteForOperator(path: string): OperatorStore {
  const db = openFile(path)
  migrate(db)
  const usage = new SqliteUsage(db)
  const direct = directOn(db, usage)
  const callbacks = new SqliteCallbackRecords(db)
  const jobs = new SqliteJobRecords(db)
  const run = ([name, ...args]: DirectOperation) => (direct[name] as (...args: unknown[]) => unknown)(...args)
  /** Each change is one short transaction, so that the server hardly waits for it. */
  const change = async <T>(work: () => T): Promise<T> => {
    db.exec('begin immediate')
    try {
      const result = work()
      usage.flush()
      db.exec('commit')
      return result
    } catch (error) {
      usage.forget()
      if (db.isTransaction) db.exec('rollback')
      throw error
    }
  }
  return {
    ...directBy(
      async (operation) => run(operation),
      (operation) => change(() => run(operation)),
    ),
    searchCallbacks: (filter) =>
      searchCallbacksByChunk(filter, SLICE_ROWS, async (slice) => callbacks.look(slice)),
    searchJobs: (search) => searchJobsByChunk(search, SLICE_ROWS, async (slice) => jobs.look(slice)),
    scrub: async () => scrub(db),
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
