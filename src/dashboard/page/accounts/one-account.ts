/** One account, read for its own page out of the list of all: they are by name, so it stands soon after the start of its name. */
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { Account, AccountList } from '../contract.ts'
import { apiError } from '../resource.ts'

export interface OneAccount {
  /** Undefined until it was read, null where there is no such account. */
  readonly account: Account | null | undefined
  readonly error: ApiError | null
  readonly reload: () => void
}

const PAGE = '200'

export function useAccount(name: string): OneAccount {
  const [read, setRead] = useState<Pick<OneAccount, 'account' | 'error'>>({ account: undefined, error: null })
  const [turn, setTurn] = useState(0)
  // A new turn reads it again.
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
  }, [name, turn])
  return { ...read, reload: () => setTurn((before) => before + 1) }
}

/** However the database puts names in order, one comes after its own beginning. */
async function find(name: string, signal: AbortSignal): Promise<Account | null> {
  for (let after = name.slice(0, -1); ; ) {
    const query = new URLSearchParams({ limit: PAGE, ...(after !== '' && { after }) })
    const { accounts, more } = await admin<AccountList>(`/accounts?${query}`, { signal })
    const found = accounts.find((one) => one.name === name)
    if (found) return found
    const last = accounts.at(-1)
    if (!more || !last) return null
    after = last.name
  }
}
