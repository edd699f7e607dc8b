/** Loads one account from the sorted list of all accounts, because the admin API has no route for a single account. */
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { Account, AccountList } from '../contract.ts'
import { apiError } from '../resource.ts'

export interface AccountResource {
  /** Undefined while it loads; null if there is no such account. */
  readonly account: Account | null | undefined
  readonly error: ApiError | null
  readonly reload: () => void
}

const PAGE_SIZE = '200'

export function useAccount(name: string): AccountResource {
  const [read, setRead] = useState<Pick<AccountResource, 'account' | 'error'>>({
    account: undefined,
    error: null,
  })
  const [reloads, setReloads] = useState(0)
  useEffect(() => {
    const ending = new AbortController()
    const { signal } = ending
    find(name, signal).then(
      (account) => {
        if (!signal.aborted) setRead({ account, error: null })
      },
      (error: unknown) => {
        if (!signal.aborted) setRead(({ account }) => ({ account, error: apiError(error) }))
      },
    )
    return () => ending.abort()
  }, [name, reloads])
  return { ...read, reload: () => setReloads((count) => count + 1) }
}

/** Starts after the name without its last character: in every collation a name sorts after its own prefix. */
async function find(name: string, signal: AbortSignal): Promise<Account | null> {
  for (let after = name.slice(0, -1); ; ) {
    const query = new URLSearchParams({ limit: PAGE_SIZE, ...(after !== '' && { after }) })
    const { accounts, more } = await admin<AccountList>(`/accounts?${query}`, { signal })
    const found = accounts.find((one) => one.name === name)
    if (found) return found
    const last = accounts.at(-1)
    if (!more || !last) return null
    after = last.name
  }
}
