/** Accounts and keys straight from the file, for commands beside a running server: no lock, no thread. */
import type { AccountStore } from '../account-store.ts'
import { SqliteAccounts } from './accounts.ts'
import { migrate, openFile } from './file.ts'

export function openSqliteAccounts(path: string): AccountStore {
  const db = openFile(path)
  migrate(db)
  const accounts = new SqliteAccounts(db)
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
    revokeKey: (keyId, nowMs) => change(() => accounts.revokeKey(keyId, nowMs)),
    findKey: async (hash) => accounts.findKey(hash),
    setTier: (account, tier) => change(() => accounts.setTier(account, tier)),
    secrets: async (account) => accounts.secrets(account),
    rotateSecret: (account, secret, nowMs) => change(() => accounts.rotateSecret(account, secret, nowMs)),
    hasAccounts: async () => accounts.hasAccounts(),
    close: async () => db.close(),
  }
}
