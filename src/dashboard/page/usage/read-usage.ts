/** Loads usage in large steps, because totals of an incomplete list would be misleading, and sums it. */
import { useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { UsageList, UsageRow, UsageSums } from '../contract.ts'
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

const monthAndYear = new Intl.DateTimeFormat('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' })

/** Sums usage rows, and formats months. */
export const SUMS = ['jobs', 'failed_jobs', 'cache_hits', 'calls', 'input_tokens', 'output_tokens'] as const

export function sumOf(rows: readonly UsageSums[]): UsageSums {
  const sums = SUMS.map((name) => [name, rows.reduce((all, row) => all + row[name], 0)])
  const costs = rows.flatMap(({ cost }) => cost ?? [])
  const cost = costs.length === 0 ? {} : { cost: costs.reduce((all, one) => all + one) }
  return { ...Object.fromEntries(sums), ...cost } as UsageSums
}

export interface Group<T> {
  readonly name: string
  readonly rows: readonly T[]
  readonly sums: UsageSums
}

/** Groups rows by name, in the order in which the names first occur. */
export function groupsBy(rows: readonly UsageRow[], nameOf: (row: UsageRow) => string): Group<UsageRow>[] {
  const groups = Map.groupBy(rows, nameOf)
  return [...groups].map(([name, of]) => ({ name, rows: of, sums: sumOf(of) }))
}

/** The UTC month of a time in Unix seconds, for example `2026-11`. */
export const monthAt = (seconds: number): string => new Date(seconds * 1000).toISOString().slice(0, 7)

/** For example `November 2026`. Text that is not a month is returned unchanged. */
export function monthName(month: string): string {
  const atMs = Date.parse(`${month}-01T00:00:00Z`)
  return Number.isNaN(atMs) ? month : monthAndYear.format(atMs)
}

/** The current month and the months before it, newest first. */
export function monthsUpTo(seconds: number, howMany: number): string[] {
  const now = new Date(seconds * 1000)
  return Array.from({ length: howMany }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)).toISOString().slice(0, 7),
  )
}
