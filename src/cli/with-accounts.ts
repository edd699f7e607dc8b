/** Opens the accounts of the configured database for one command, and closes them after it. */
import { loadDatabaseUrl } from '../config/load.ts'
import type { AccountStore } from '../store/account-store.ts'
import { openAccounts } from '../store/open.ts'

export async function withAccounts<T>(
  configFile: string | undefined,
  work: (accounts: AccountStore) => Promise<T>,
): Promise<T> {
  const accounts = await openAccounts(loadDatabaseUrl(process.env, configFile))
  try {
    return await work(accounts)
  } finally {
    await accounts.close()
  }
}
