/** Transfers the contents of a database to an empty one: reads a source in batches, and counts the rows. */
import { DatabaseProblem } from './database-problem.ts'
import type { Dialect } from './dialect.ts'
import type { Expiry } from './expiry.ts'
import { hasExpired } from './job-rows.ts'
import type { Row } from './rows.ts'
import { allOf, join, raw, Sql, sql, type Value } from './sql.ts'
import { outcomeBytesOf, requestBytesOf } from './stored-bytes.ts'
import {
  BATCH_ROWS,
  BATCH_WEIGHT,
  type Batches,
  batchRowsOf,
  columnsOf,
  firstTables,
  KIND_NAMES,
  KINDS,
  type Kind,
  readerOf,
  type TransferSource,
  type TransferTarget,
} from './transfer-contract.ts'

export type TransferCounts = ReturnType<typeof noCounts>

/** Does not close the databases. If this rejects, closing the target discards what was added. */
export async function transferDatabase(
  source: TransferSource,
  target: TransferTarget,
  expiry: Expiry,
  onProgress: (counts: Readonly<TransferCounts>) => void,
): Promise<Readonly<TransferCounts>> {
  const counts = noCounts()
  let title = ''
  try {
    for (const kind of KIND_NAMES) {
      title = KINDS[kind].title
      for await (const batch of readAhead(source.read(kind, expiry.nowMs))) {
        const rows =
          kind === 'jobs' ? batch.filter((row) => row.in_batch === 1 || !hasExpired(row, expiry)) : batch
        const added = await target.add(kind, rows)
        if (kind === 'jobs') countJobs(counts, batch.length, rows)
        else if (kind !== 'callbacks') counts[kind] += added
        onProgress(counts)
      }
    }
    title = 'the end'
    await target.commit()
  } catch (error) {
    if (!(error instanceof DatabaseProblem)) throw error
    const done = counts.waiting + counts.ended
    throw new DatabaseProblem(
      `The copy stopped at ${title}, after ${done} jobs: ${error.message} Nothing of it stays in the target, and the source is unchanged. Fix the cause and run it again.`,
      { cause: error },
    )
  }
  return counts
}

function noCounts() {
  return {
    accounts: 0,
    keys: 0,
    waiting: 0,
    held: 0,
    ended: 0,
    reruns: 0,
    /** Finished jobs that were left out, because they can no longer be read. */
    expired: 0,
    callbacksOwed: 0,
    /** Callbacks that were delivered or have failed. */
    callbacksDone: 0,
    cachedResponses: 0,
    idempotencyKeys: 0,
    usage: 0,
    files: 0,
    filePieces: 0,
    batches: 0,
    batchLines: 0,
    adminTokens: 0,
    auditEntries: 0,
  }
}

/** @param read how many jobs were read. Those that are not in `jobs` have expired */
function countJobs(counts: TransferCounts, read: number, jobs: readonly Row[]): void {
  counts.expired += read - jobs.length
  for (const { settled_at_ms, held, called_back, due_at_ms } of jobs) {
    if (settled_at_ms !== null) counts.ended += 1
    else counts.waiting += 1
    if (held === 1) counts.held += 1
    if (called_back === null) continue
    if (due_at_ms === null) counts.callbacksDone += 1
    else counts.callbacksOwed += 1
  }
}

/** Reads the next batch while the previous one is written. */
async function* readAhead(batches: Batches): AsyncGenerator<readonly Row[]> {
  const reader = batches[Symbol.asyncIterator]()
  const read = () => {
    const next = reader.next()
    // Where `next` is awaited below, the error is handled. Until then, it must not count as unhandled.
    next.catch(() => {})
    return next
  }
  let next = read()
  try {
    for (let batch = await next; !batch.done; batch = await next) {
      next = read()
      yield batch.value
    }
  } finally {
    await next.catch(() => {})
    await reader.return?.()
  }
}

interface SourceDatabase {
  readonly store: 'sqlite' | 'postgres'
  readonly dialect: Dialect
  /** The first turn in the queue of the route of a joined job. */
  readonly headTurn: Sql
  /** Tables or keys that differ from `KINDS`. */
  readonly from: Partial<Record<Kind, { readonly table?: Sql; readonly key?: readonly string[] }>>
  query(statement: Sql): Promise<readonly Row[]>
  close(): Promise<void>
}

export function sourceOn(database: SourceDatabase): TransferSource {
  return {
    async *read(kind, nowMs) {
      const { table = raw(KINDS[kind].table), key = KINDS[kind].key } = database.from[kind] ?? {}
      const read = readerOf(kind)
      for (let after: readonly Value[] | null = null; ; ) {
        const page = { after: after === null ? sql`true` : isAfter(key, after), nowMs }
        const rows: readonly Row[] = await database.query(
          kind === 'jobs' ? selectJobs(database, page.after) : select(kind, table, key, page),
        )
        const last = rows.at(-1)
        if (!last) return
        after = key.map((name) => last[name] as Value)
        yield rows.map((row) => (kind === 'jobs' ? withoutOtherState(read(row)) : read(row)))
      }
    },
    close: () => database.close(),
  }
}

function isAfter(key: readonly string[], values: readonly Value[]): Sql {
  const last = values.map((value) => sql`${value}`)
  return sql`(${raw(key.join(', '))}) > (${join(last, ', ')})`
}

function select(
  kind: Kind,
  table: Sql,
  key: readonly string[],
  { after, nowMs }: { readonly after: Sql; readonly nowMs: number },
): Sql {
  const columns = Object.keys(columnsOf(kind))
  const names = [...new Set([...columns, ...key])].join(', ')
  const which = allOf(after, columns.includes('until_ms') ? sql`until_ms > ${nowMs}` : undefined)
  return sql`select ${raw(names)} from ${table} t
    where ${which} order by ${raw(key.join(', '))} limit ${raw(batchRowsOf(kind))}`
}

/**
 * A batch has at least one job, however large. The node is `copied`, a name that no node has, because the job was settled in
 * another database. `counted` is 1, because usage is transferred as sums. `KINDS` says in which row the other columns are.
 */
function selectJobs({ store, dialect: { job, joinJob }, headTurn }: SourceDatabase, after: Sql): Sql {
  const { request, queued } = job
  const bytes = raw(`${requestBytesOf(request.texts.join(''))} + ${outcomeBytesOf('o')}`)
  const computed: { readonly [name in keyof typeof KINDS.jobs.columns]?: Sql } = {
    reserved: sql`coalesce(${queued}.reserved, j.reserved)`,
    messages: sql`case when ${request}.messages_zstd is null then ${request}.messages end`,
    status: job.status,
    attempt: job.attempt,
    deaths: job.crashCount,
    turn: sql`case when ${queued}.node is null then ${queued}.turn else coalesce(${headTurn}, 0) end`,
    held: sql`case when ${queued}.node is null then 0 else 1 end`,
    route: sql`coalesce(${queued}.route, '')`,
    claimed_at_ms: job.claimedAtMs,
    settled_at_ms: job.settledAtMs,
    has_callback: sql`case when ${request}.callback is null then 0 else 1 end`,
    bytes,
    in_batch: sql`case when exists (select 1 from batch_lines l where l.job_id = cast(j.id as text)) then 1 else 0 end`,
    node: sql`'copied'`,
    counted: sql`1`,
    called_back: sql`c.job_id`,
    due_at_ms: sql`c.due_at_ms`,
  }
  const rows: Readonly<Record<string, Sql>> = {
    ...{ jobs: sql`j`, requests: request, outcomes: sql`o`, open_jobs: queued },
  }
  const columns = Object.entries({ ...firstTables('jobs', store), ...computed }).map(([name, from]) => {
    if (from instanceof Sql) return sql`${from} as ${raw(name)}`
    const row = rows[from]
    if (row) return sql`${row}.${raw(name)}`
    throw new Error(`selectJobs in transfer.ts must compute jobs.${name}: KINDS names no row that has it`)
  })
  return sql`
    with page as materialized (select id from jobs where ${after} order by id limit ${raw(BATCH_ROWS)}),
    weighed as (
      select page.id, sum(${bytes}) over (order by page.id rows between unbounded preceding and 1 preceding) as before
      from page ${joinJob(sql`page.id`)}
    )
    select ${join(columns, ', ')}
    from (select id from weighed where coalesce(before, 0) < ${raw(BATCH_WEIGHT)}) one ${joinJob(sql`one.id`)}
    order by j.id`
}

/** An unfinished job loses the time of its last claim, and a finished job its place in the queue. */
function withoutOtherState(job: Row): Row {
  return Object.assign(job, job.settled_at_ms === null ? { claimed_at_ms: null } : NOT_QUEUED)
}

const NOT_QUEUED = { held: 0, turn: null, route: '', earlier: null, waits_since_ms: null, waited_ms: null }
