/** Deletes finished jobs and whole accounts in Postgres, and removes deleted data from the disk as far as possible. */
import { setTimeout as pause } from 'node:timers/promises'
import type { AccountDeleted, AdminActionStore } from '../operator-store.ts'
import { numberOf, numberOrNull, type Row, textOf } from '../rows.ts'
import { raw, type Steps, sql } from '../sql.ts'
import { USAGE_COLUMNS } from '../usage.ts'
import { type Database, meaningOf, type Statement, withClient } from './database.ts'
import { ALLOW_BITMAPS, LONGEST_TTL_MS } from './partitions.ts'
import { deleteRows, FORGET_QUOTAS, LOCK_USAGE } from './quotas.ts'

/**
 * The deletion of an account waits at most this long for concurrent writers. Postgres ends an idle transaction sooner
 * (`database.ts`).
 */
const MAX_WRITER_MS = 15_000
const WRITER_PAUSE_MS = 20
/** Nodes write the times of jobs, and their clocks may be wrong by this much. */
const CLOCK_SLACK_MS = 600_000

/** Reports of cancellations stay, because nodes must still read them to stop running those jobs. */
export function* deleteJobs(rows: readonly Row[]): Steps<void> {
  const ids = rows.map((row) => textOf(row, 'id'))
  yield deleteRows(ids)
  // Cached responses have no index by job, so they are found by their time of expiry: at most the longest TTL after the end of
  // the job.
  const times = rows.flatMap((row) => {
    const settledAtMs = numberOf(row, 'settled_at_ms')
    return [settledAtMs, numberOrNull(row, 'claimed_at_ms') ?? settledAtMs]
  })
  yield raw(ALLOW_BITMAPS.text)
  yield sql`delete from kept_answers
    where until_ms >= ${Math.min(...times) - CLOCK_SLACK_MS} and job_id = any (${ids}::uuid[])
      and until_ms <= ${Math.max(...times) + LONGEST_TTL_MS + CLOCK_SLACK_MS}`
}

export function deletionOperations(
  database: Database,
  url: string,
): Pick<AdminActionStore, 'deleteAccount' | 'scrub'> {
  return {
    scrub: () => vacuum(url),

    deleteAccount: async (account, usageAs) => {
      const deleted = await database.transaction(async ({ query }): Promise<AccountDeleted> => {
        const open = await query(HAS_OPEN_JOBS, [account])
        if (open.length > 0) return 'has open jobs'
        const found = await query(DELETE_ACCOUNT, [account])
        await query(LOCK_USAGE)
        for (const statement of MOVE_USAGE) await query(statement, [account, usageAs])
        for (const statement of DELETE_OF_ACCOUNT) await query(statement, [account])
        await query(FORGET_QUOTAS, [account])
        return found.length > 0 ? 'deleted' : 'unknown'
      })
      if (deleted !== 'deleted') return deleted
      await writersEnded(database)
      const late = await database.query(HAS_OPEN_JOBS, [account])
      return late.length > 0 ? 'has open jobs' : 'deleted'
    },
  }
}

/**
 * A statement that began before the deletion was committed does not see it, and may still store a job for the account. This
 * waits for the end of such transactions, for at most `MAX_WRITER_MS`.
 */
async function writersEnded(database: Database): Promise<void> {
  const transactions = (rows: readonly Row[]) => rows.map((row) => textOf(row, 'virtualtransaction'))
  let writers = new Set(transactions(await database.query(WRITERS)))
  for (let waitedMs = 0; writers.size > 0 && waitedMs < MAX_WRITER_MS; waitedMs += WRITER_PAUSE_MS) {
    await pause(WRITER_PAUSE_MS)
    writers = writers.intersection(new Set(transactions(await database.query(WRITERS))))
  }
}

/** A vacuum cannot run in a transaction, and must have no time limit. Postgres skips tables that the role does not own. */
async function vacuum(url: string): Promise<void> {
  try {
    await withClient(url, null, (client) => client.query(`vacuum ${DELETED_FROM.join(', ')}`))
  } catch (error) {
    throw meaningOf(error)
  }
}

const DELETED_FROM = [
  'jobs',
  'open_jobs',
  'outcomes',
  'callbacks',
  'kept_answers',
  'cancelled_jobs',
  'crashes',
  'accounts',
  'keys',
  'idempotency',
  'usage',
  'usage_deltas',
  'quota_sums',
  'quota_deltas',
  'files',
  'file_pieces',
  'batches',
  'batch_lines',
  'reruns',
]

const HAS_OPEN_JOBS: Statement = {
  repeatable: true,
  name: 'account has open jobs',
  text: 'select 1 from open_jobs where account = $1 limit 1',
}
/** A statement that writes jobs takes this lock before its snapshot, and its transaction holds the lock until the end. */
const WRITERS: Statement = {
  repeatable: true,
  name: 'transactions that write jobs',
  text: `select virtualtransaction from pg_locks
    where locktype = 'relation' and relation = 'jobs'::regclass and mode = 'RowExclusiveLock' and granted
      and database = (select oid from pg_database where datname = current_database())`,
}
const DELETE_ACCOUNT: Statement = {
  name: 'delete account',
  text: 'delete from accounts where name = $1 returning name',
}
/** The usage is moved as deltas, because an earlier call may have moved usage to the same name. */
const MOVE_USAGE: readonly Statement[] = [
  {
    name: "move account's deltas of usage",
    text: 'update usage_deltas set account = $2 where account = $1',
  },
  {
    name: "move account's usage",
    text: `insert into usage_deltas (${USAGE_COLUMNS})
      select $2, ${USAGE_COLUMNS.replace('account, ', '')} from usage where account = $1`,
  },
]
const DELETE_OF_ACCOUNT: readonly Statement[] = [
  ['keys', 'account = $1'],
  ['idempotency', 'account = $1'],
  ['usage', 'account = $1'],
  ['callbacks', 'account = $1 and due_at_ms is not null'],
].map(([table, condition]) => ({
  name: `delete account's ${table}`,
  text: `delete from ${table} where ${condition}`,
}))
