/** What a backup holds, as it is told. */
import type { DatabaseSummary } from '../store/backup.ts'

export function holdingsLines(holdings: DatabaseSummary): string[] {
  const { accounts, keys, jobs, callbacksOwed, newestJobAtMs } = holdings
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

export function holdingsAsJson(holdings: DatabaseSummary): object {
  const { bytes, schema, accounts, keys, jobs, callbacksOwed, newestJobAtMs } = holdings
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
