/** Loads usage in large steps, because totals of an incomplete list would be misleading. */
import { useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { UsageList, UsageRow } from '../contract.ts'
import { useLoaded } from '../resource.ts'

export interface UsageFilters {
  readonly account: string
  readonly month: string
}

export interface UsageRead {
  /** Null while they load. */
  readonly rows: readonly UsageRow[] | null
  /** Where the next step continues; null if everything is loaded. */
  readonly next: string | null
  /** The currency of costs; null if none is configured. */
  readonly currency: string | null
  readonly error: ApiError | null
  readonly reload: () => void
  readonly loadMore: () => void
}

/** Rows per request: the server's maximum. */
const PAGE_SIZE = 200
const STEP_ROWS = 1000

/** Reads usage. When the filters change, the old filters' data is dropped. A reload keeps the data until it has finished. */
export function useUsage(filters: UsageFilters): UsageRead {
  const of = `${filters.account}\n${filters.month}`
  const [most, setMost] = useState({ of, rows: STEP_ROWS })
  const rowsWanted = most.of === of ? most.rows : STEP_ROWS
  const { data, error, reload } = useLoaded(of, (signal) => readRows(filters, rowsWanted, signal), rowsWanted)
  return {
    rows: data?.rows ?? null,
    next: data?.next ?? null,
    currency: data?.currency ?? null,
    error,
    reload,
    loadMore: () => setMost({ of, rows: rowsWanted + STEP_ROWS }),
  }
}

async function readRows({ account, month }: UsageFilters, most: number, signal: AbortSignal) {
  const rows: UsageRow[] = []
  let after: string | null = null
  let currency: string | null = null
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
    currency = page.currency ?? null
  } while (after !== null && rows.length < most)
  return { rows, next: after, currency }
}
