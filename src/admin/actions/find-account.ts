/** Whether there is an account of that name, and how it stands. */
import type { AccountStore, KeyRecord } from '../../store/account-store.ts'

/** An account is made with its first key, and no key is ever taken away from it. */
export async function findAccount(
  store: Pick<AccountStore, 'searchKeys'>,
  account: string,
): Promise<Pick<KeyRecord, 'tier' | 'suspendedAtMs' | 'caps'> | null> {
  const [key = null] = await store.searchKeys({ account, limit: 1 })
  return key
}
