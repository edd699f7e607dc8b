/** Prints the summary of a database that `parley backup` and `parley restore` report. */
import type { DatabaseSummary } from '../store/backup.ts'

export function summaryLines(summary: DatabaseSummary): string[] {
  const { accounts, keys, jobs, callbacksOwed, newestJobAtMs } = summary
  const rows: [string, number][] = [
    ['accounts', accounts],
    ['keys', keys],
    ...Object.entries(jobs).map(([status, count]): [string, number] => [`jobs ${status}`, count]),
    ['callbacks owed', callbacksOwed],
  ]
  const lines = rows.map(([name, count]) => `${name.padEnd(16)} ${String(count).padStart(10)}`)
  return newestJobAtMs === null
    ? lines
    : [...lines, `${'newest job'.padEnd(16)} ${new Date(newestJobAtMs).toISOString()}`]
}

export function summaryJson(summary: DatabaseSummary): object {
  const { bytes, schema, accounts, keys, jobs, callbacksOwed, newestJobAtMs } = summary
  return {
    bytes,
    schema,
    accounts,
    keys,
    jobs,
    callbacks_owed: callbacksOwed,
    newest_job_at: newestJobAtMs === null ? null : Math.floor(newestJobAtMs / 1000),
  }
}

export function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}
