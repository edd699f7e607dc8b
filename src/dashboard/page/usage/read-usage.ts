/** Loads usage in large steps, because totals of an incomplete list would be misleading. */
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { UsageList, UsageRow } from '../contract-usage.ts'
import { apiError } from '../resource.ts'

export interface UsageFilters {
  readonly account: string
  readonly month: string
}

export interface UsageRead {
  /** Null while they load. */
  readonly rows: readonly UsageRow[] | null
  /** Where the next step continues; null if everything is loaded. */
  readonly next: string | null
  readonly error: ApiError | null
  readonly reload: () => void
  readonly loadMore: () => void
}

/** Rows per request: the server's maximum. */
const PAGE_SIZE = 200
/** Rows per step. */
const STEP_ROWS = 1000

/** When the filters change, the data of the old filters is dropped. A reload keeps the data until it has finished. */
export function useUsage(filters: UsageFilters): UsageRead {
  const { account, month } = filters
  const of = `${account}\n${month}`
  const [most, setMost] = useState({ of, rows: STEP_ROWS })
  const rowsWanted = most.of === of ? most.rows : STEP_ROWS
  const [read, setRead] = useState<Pick<UsageRead, 'rows' | 'next' | 'error'> & { readonly of: string }>({
    of,
    ...NOTHING,
  })
  const [reloads, setReloads] = useState(0)
  useEffect(() => {
    const ending = new AbortController()
    const { signal } = ending
    readRows({ account, month }, rowsWanted, signal).then(
      (found) => {
        if (!signal.aborted) setRead({ of, ...found, error: null })
      },
      (problem: unknown) => {
        if (signal.aborted) return
        setRead((before) => ({
          ...(before.of === of ? before : { of, ...NOTHING }),
          error: apiError(problem),
        }))
      },
    )
    return () => ending.abort()
  }, [of, rowsWanted, reloads])
  const { rows, next, error } = read.of === of ? read : NOTHING
  return {
    rows,
    next,
    error,
    reload: () => setReloads((count) => count + 1),
    loadMore: () => setMost({ of, rows: rowsWanted + STEP_ROWS }),
  }
}

const NOTHING = { rows: null, next: null, error: null }

async function readRows({ account, month }: UsageFilters, most: number, signal: AbortSignal) {
  const rows: UsageRow[] = []
  let after: string | null = null
  do {
    const query = new URLSearchParams({
      limit: String(PAGE_SIZE),
      ...(account && { account }),
      ...(month && { month }),
      ...(after !== null && { after }),
    })
    const page: UsageList = await admin<UsageList>(`/usage?${query}`, { signal })
    rows.push(...page.usage)
    after = page.more ? page.next : null
  } while (after !== null && rows.length < most)
  return { rows, next: after }
}
