/**
 * Counts the open jobs, stored bytes and reserved cost of accounts in the rows of jobs and files. The sums that quotas use must
 * equal these.
 */
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import type { QuotaUse } from '../../src/store/usage-store.ts'

const BYTES = ['messages', 'response_format', 'callback', 'content', 'error', 'receipt']
  .map((column) =>
    ['messages', 'content'].includes(column)
      ? `coalesce(${column}_bytes, octet_length(${column}), 0)`
      : `coalesce(octet_length(${column}), 0)`,
  )
  .join(' + ')
const sums = (isOpen: string, from: string, reserved: string) => `
  select j.account, count(case when ${isOpen} then 1 end) as jobs, sum(case when ${isOpen} then ${reserved} end) as reserved,
    sum(${BYTES}) + coalesce((select sum(f.bytes) from files f where f.account = j.account), 0) as bytes
  from ${from} group by j.account order by j.account`
const SQLITE = sums(
  'j.settled_at_ms is null',
  'jobs j join requests r using (seq) left join outcomes o using (seq)',
  'j.reserved',
)
const POSTGRES = sums(
  'o.id is null',
  'jobs j left join outcomes o on o.id = j.id left join open_jobs q on q.id = j.id',
  'coalesce(q.reserved, j.reserved)',
)

export type StoredSums = Readonly<Record<string, QuotaUse>>

/**
 * Returns the sums by account.
 * @param database `sqlite:PATH` or `postgres://…`
 */
export async function countStored(database: string): Promise<StoredSums> {
  const rows = database.startsWith('sqlite:')
    ? inFile(database.slice('sqlite:'.length))
    : await inPostgres(database)
  return Object.fromEntries(
    rows.map(({ account, jobs, bytes, reserved }) => [
      String(account),
      {
        openJobs: Number(jobs),
        storedBytes: Number(bytes),
        ...(Number(reserved) > 0 && { reserved: Number(reserved) }),
      },
    ]),
  )
}

function inFile(path: string): Record<string, unknown>[] {
  const db = new DatabaseSync(path)
  try {
    return db.prepare(SQLITE).all()
  } finally {
    db.close()
  }
}

async function inPostgres(url: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query(POSTGRES)).rows
  } finally {
    await client.end()
  }
}
