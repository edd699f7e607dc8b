/**
 * What accounts have open and stored, in SQLite: sums in a table, which each transaction changes once per account. Until
 * then, the changes are summed in memory, like usage.
 */
import type { DatabaseSync } from 'node:sqlite'
import { numberOf } from '../rows.ts'
import { outcomeBytesOf, requestBytesOf } from '../stored-bytes.ts'

type Statements = Pick<DatabaseSync, 'prepare'>

interface Change {
  openJobs: number
  bytes: number
}

export class QuotaSums {
  readonly #changes = new Map<string, Change>()

  /** @param openJobs 1 for a job that was accepted, -1 for one that ended, else 0 */
  add(account: string, openJobs: number, bytes: number): void {
    const change = this.#changes.get(account)
    if (change === undefined) this.#changes.set(account, { openJobs, bytes })
    else {
      change.openJobs += openJobs
      change.bytes += bytes
    }
  }

  /** How many jobs of all accounts are open, with what was added and is not written yet. */
  openJobs(file: Statements): number {
    let open = Number(file.prepare(OPEN_JOBS).get()?.open_jobs ?? 0)
    for (const { openJobs } of this.#changes.values()) open += openJobs
    return open
  }

  /** Writes what was added: the last statements of a transaction. */
  write(file: Statements): void {
    if (this.#changes.size === 0) return
    for (const [account, { openJobs, bytes }] of this.#changes) {
      file.prepare(ADD).run(account, openJobs, bytes)
    }
    this.#changes.clear()
  }

  /** Forgets what was added in a transaction that was rolled back. */
  forget(): void {
    this.#changes.clear()
  }
}

/** The bytes that a job stores; 0 if there is no such row. */
export function storedBytes(file: Statements, seq: number): number {
  const row = file.prepare(STORED_BYTES).get(seq)
  return row ? numberOf(row, 'bytes') : 0
}

/**
 * Counts the jobs of earlier versions, once: when a server starts for the first time on a file that such a version wrote. Not
 * a part of the migration, because a command may migrate the file while a server of an earlier version still uses it.
 */
export function countOnce(db: DatabaseSync): void {
  if (db.prepare('select counted from quota_state').get()?.counted === 1) return
  db.exec(`begin immediate; ${COUNT}; commit`)
}

/** After this the sums are complete, and starts only read them. */
export const MARK_COUNTED = 'update quota_state set counted = 1'

const ADD = `
  insert into quota_sums (account, open_jobs, stored_bytes) values (?, ?, ?)
  on conflict do update set open_jobs = open_jobs + excluded.open_jobs,
    stored_bytes = stored_bytes + excluded.stored_bytes`
const OPEN_JOBS = 'select sum(open_jobs) as open_jobs from quota_sums'
const STORED_BYTES = `
  select ${requestBytesOf('r')} + ${outcomeBytesOf('o')} as bytes
  from requests r left join outcomes o on o.seq = r.seq where r.seq = ?`
const COUNT = `
  delete from quota_sums;
  insert into quota_sums (account, open_jobs, stored_bytes)
  select j.account, sum(j.settled_at_ms is null), sum(${requestBytesOf('r')} + ${outcomeBytesOf('o')})
  from jobs j cross join requests r on r.seq = j.seq left join outcomes o on o.seq = j.seq
  group by j.account;
  ${MARK_COUNTED}`
