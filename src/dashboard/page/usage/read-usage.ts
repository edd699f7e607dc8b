/** Loads usage in large steps and sums it. Totals of an incomplete list would be misleading, so the steps are large. */
import { useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { UsageList, UsageRow, UsageSums } from '../contract.ts'
import { useLoaded } from '../resource.ts'

export interface UsageFilters {
  readonly account: string
  readonly month: string
}

export interface UsageRead {
  /** `rows` is null until the first step is complete. */
  readonly rows: readonly UsageRow[] | null
  /** The next step continues after this row. Null means that everything is loaded. */
  readonly next: string | null
  /** Costs are in this currency. Null means that none is configured. */
  readonly currency: string | null
  readonly error: ApiError | null
  readonly reload: () => void
  readonly loadMore: () => void
}

/** The server returns at most this many rows per request. */
const PAGE_SIZE = 200
const STEP_ROWS = 1000

/** If the filters change, the old data is dropped. During a reload, the old data remains. */
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

export function groupsBy(rows: readonly UsageRow[], nameOf: (row: UsageRow) => string): Group<UsageRow>[] {
  const groups = Map.groupBy(rows, nameOf)
  return [...groups].map(([name, of]) => ({ name, rows: of, sums: sumOf(of) }))
}

/** Returns the UTC month of a time in Unix seconds, such as `2026-11`. */
export const monthAt = (seconds: number): string => new Date(seconds * 1000).toISOString().slice(0, 7)

/** Returns the name of a month, such as `November 2026`. Returns any other text unchanged. */
export function monthName(month: string): string {
  const atMs = Date.parse(`${month}-01T00:00:00Z`)
  return Number.isNaN(atMs) ? month : monthAndYear.format(atMs)
}

export function monthsUpTo(seconds: number, howMany: number): string[] {
  const now = new Date(seconds * 1000)
  return Array.from({ length: howMany }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)).toISOString().slice(0, 7),
  )
}
