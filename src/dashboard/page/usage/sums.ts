/** Sums usage rows, and formats months. */
import type { UsageRow, UsageSums } from '../contract.ts'

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
