/** Usage read for its page: many rows at once, because totals of half a list would mislead. */
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { UsageList, UsageRow } from '../contract-operations.ts'
import { apiError } from '../resource.ts'

export interface UsageFilters {
  readonly account: string
  readonly month: string
}

export interface UsageRead {
  /** Null until they are there. */
  readonly rows: readonly UsageRow[] | null
  /** Where to go on; null where all were read. */
  readonly next: string | null
  readonly error: ApiError | null
  readonly reload: () => void
  readonly readOn: () => void
}

/** Rows of one request, the most that the server gives, and of one turn of the page. */
const PAGE = 200
const ROWS = 1000

/** When the filters change, what was read of the old ones is gone; a reload keeps it until it ends. */
export function useUsage(filters: UsageFilters): UsageRead {
  const { account, month } = filters
  const of = `${account}\n${month}`
  const [most, setMost] = useState({ of, rows: ROWS })
  const rowsWanted = most.of === of ? most.rows : ROWS
  const [read, setRead] = useState<Pick<UsageRead, 'rows' | 'next' | 'error'> & { readonly of: string }>({
    of,
    ...NOTHING,
  })
  const [turn, setTurn] = useState(0)
  // A new turn reads the same again.
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
  }, [of, rowsWanted, turn])
  const { rows, next, error } = read.of === of ? read : NOTHING
  return {
    rows,
    next,
    error,
    reload: () => setTurn((before) => before + 1),
    readOn: () => setMost({ of, rows: rowsWanted + ROWS }),
  }
}

const NOTHING = { rows: null, next: null, error: null }

async function readRows({ account, month }: UsageFilters, most: number, signal: AbortSignal) {
  const rows: UsageRow[] = []
  let after: string | null = null
  do {
    const query = new URLSearchParams({
      limit: String(PAGE),
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
