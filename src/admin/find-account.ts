/** Looks up an account by its name. */
import type { AccountStore, KeyRecord } from '../store/account-store.ts'

/** An account is created with its first key and keys are never removed, so an account that exists has a key. */
export async function findAccount(
  store: Pick<AccountStore, 'searchKeys'>,
  account: string,
): Promise<Pick<KeyRecord, 'tier' | 'suspendedAtMs' | 'caps'> | null> {
  const [key = null] = await store.searchKeys({ account, limit: 1 })
  return key
}
