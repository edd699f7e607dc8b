/** Opens the configured database for one command, and closes it afterwards. */
import { loadDatabaseUrl } from '../config/file.ts'
import { openForOperator } from '../store/open.ts'
import type { OperatorStore } from '../store/operator-store.ts'

export async function withOperatorStore<T>(
  configFile: string | undefined,
  work: (store: OperatorStore) => Promise<T>,
): Promise<T> {
  const store = await openForOperator(loadDatabaseUrl(process.env, configFile))
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}
