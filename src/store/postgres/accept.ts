/**
 * Stores new jobs, many acceptances in one statement. A job that waits gets its turn here: fair order is start-time fair
 * queueing, and a job's turn is the greatest of the line's turn, the turn of the job at its head, and one step after the
 * last of its account that waits. The head counts because nobody remembers the turns of an account whose jobs all run: at
 * the line's turn, an account whose jobs come one by one would always be next. The database says all of it, so nodes need
 * not agree on anything.
 */
import type { Job } from '../../job/job.ts'
import type { Acceptance, Accepted, Idempotency, NewJob, Settlement } from '../store.ts'
import {
  NEW_JOB_NAMES,
  NEW_JOB_TYPES,
  newJobColumns,
  SETTLEMENT_NAMES,
  SETTLEMENT_TYPES,
  settlementColumns,
  unnest,
} from './columns.ts'
import type { Database, Queries, Statement } from './database.ts'
import type { QueueHead } from './queue-head.ts'
import { OWE_AND_KEEP } from './settle.ts'

/** A job that was stored already is left as it is: for a repetition after an unknown outcome. */
type Mode = 'first' | 'again'

export interface NewEndedJob {
  readonly job: Job
  readonly settlement: Settlement
}

export class PostgresAccept {
  readonly #database: Database
  readonly #line: QueueHead

  constructor(database: Database, line: QueueHead) {
    this.#database = database
    this.#line = line
  }

  /** All acceptances of one node, without idempotency keys. All are stored, or none. */
  async accept(acceptances: readonly Acceptance[], mode: Mode): Promise<void> {
    const [first] = acceptances
    if (first)
      await this.#insert(
        this.#database,
        first.node,
        acceptances.flatMap(({ jobs }) => jobs),
        first.nowMs,
        mode,
      )
  }

  /** One acceptance with its key, which only one at a time of the same key goes through. */
  async acceptOnce({ node, jobs, nowMs }: Acceptance, idempotency: Idempotency): Promise<Accepted> {
    const account = jobs[0]?.job.account ?? ''
    const ids = jobs.map(({ job }) => job.id)
    return this.#database.transaction(async (queries) => {
      await queries.query(LOCK_KEY, [account, idempotency.key])
      const [earlier] = await queries.query(FIND_KEY, [account, idempotency.key])
      if (earlier && Number(earlier.until_ms) > nowMs) {
        if (earlier.fingerprint !== idempotency.fingerprint) return { kind: 'conflict' }
        const jobIds = JSON.parse(String(earlier.job_ids)) as string[]
        // This very request, whose first answer was lost on the way.
        if (jobIds[0] === ids[0]) return { kind: 'accepted' }
        // A request whose jobs have vanished is made anew, rather than answered with ids that lead nowhere.
        const [found] = await queries.query(COUNT_JOBS, [jobIds])
        if (Number(found?.count) === jobIds.length) return { kind: 'repeated', jobIds }
      }
      await this.#insert(queries, node, jobs, nowMs, 'first')
      const { key, fingerprint, untilMs } = idempotency
      await queries.query(REMEMBER_KEY, [account, key, fingerprint, JSON.stringify(ids), untilMs])
      return { kind: 'accepted' }
    })
  }

  async #insert(
    queries: Queries,
    node: string,
    jobs: readonly NewJob[],
    nowMs: number,
    mode: Mode,
  ): Promise<void> {
    const columns = newJobColumns(jobs.map(({ job }) => job))
    const origins = jobs.map(({ awaited }) => (awaited ? node : null))
    if (jobs.every(({ handedOff }) => handedOff)) {
      await queries.query(ACCEPT_HELD[mode], [node, ...columns, origins, Math.floor(nowMs)])
      return
    }
    const handedOff = jobs.map((job) => job.handedOff)
    const steps = jobs.map(({ step }) => step)
    const values = [node, ...columns, origins, handedOff, steps, this.#line.turn, Math.floor(nowMs)]
    const [placed] = await queries.query(ACCEPT[mode], values)
    if (placed?.turn != null) this.#line.joined(Number(placed.turn))
  }

  /** Jobs that have ended already, each with its outcome. All are stored, or none. */
  async acceptEnded(ended: readonly NewEndedJob[], mode: Mode): Promise<void> {
    const [first] = ended
    if (!first) return
    const columns = newJobColumns(ended.map(({ job }) => job))
    const outcomes = settlementColumns(ended.map(({ settlement }) => settlement))
    await this.#database.query(ACCEPT_ENDED[mode], [first.settlement.node, ...columns, ...outcomes])
  }
}

const JOBS_FROM = 2
const AFTER_JOBS = JOBS_FROM + NEW_JOB_TYPES.length

const modes = (name: string, text: (onConflict: string) => string): Readonly<Record<Mode, Statement>> => ({
  first: { name, text: text('') },
  again: { name: `${name} again`, text: text('on conflict (id) do nothing') },
})

const insertJobs = (onConflict: string) =>
  `stored as (insert into jobs (${NEW_JOB_NAMES}) select ${NEW_JOB_NAMES} from n ${onConflict} returning id)`

/** $1 node, then the columns of jobs, then origins, then now. */
const ACCEPT_HELD = modes(
  'accept held',
  (onConflict) => `
  with n as (select * from ${unnest([...NEW_JOB_TYPES, 'text'], JOBS_FROM)} as n(${NEW_JOB_NAMES}, origin)),
  ${insertJobs(onConflict)}
  insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin)
  select id, account, callback is not null, null, $1::text, 1, 0, $${AFTER_JOBS + 1}::bigint, origin
  from n join stored using (id)`,
)

const TURN = `$${AFTER_JOBS + 3}::bigint`

/** $1 node, then the columns of jobs, then origins, whether handed off, steps, the line's turn as the node knows it, now. */
const ACCEPT = modes(
  'accept',
  (onConflict) => `
  with n as (
    select * from ${unnest([...NEW_JOB_TYPES, 'text', 'boolean', 'bigint'], JOBS_FROM)}
      with ordinality as n(${NEW_JOB_NAMES}, origin, handed_off, step, place)
  ),
  ${insertJobs(onConflict)},
  queued as (
    select id, account, step, sum(step) over (partition by account order by place) - step as ahead
    from n where not handed_off
  ),
  begins as (
    select account, greatest(
      ${TURN},
      (select turn from open_jobs where turn >= ${TURN} order by turn, id limit 1),
      (select turn from open_jobs o where o.account = q.account and o.turn >= ${TURN} order by o.turn desc limit 1)
        + min(step)
    ) as turn from queued q group by account
  ),
  placed as (
    insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin)
    select n.id, n.account, n.callback is not null, b.turn + q.ahead,
      case when handed_off then $1::text end, case when handed_off then 1 else 0 end, 0,
      case when handed_off then $${AFTER_JOBS + 4}::bigint end, origin
    from n join stored using (id) left join queued q using (id) left join begins b on b.account = q.account
    returning turn
  )
  select min(turn) as turn from placed`,
)

/** $1 node, then the columns of jobs, then those of settlements. */
const ACCEPT_ENDED = modes(
  'accept ended',
  (onConflict) => `
  with n as (select * from ${unnest(NEW_JOB_TYPES, JOBS_FROM)} as n(${NEW_JOB_NAMES})),
  ${insertJobs(onConflict)},
  s as (select * from ${unnest(SETTLEMENT_TYPES, AFTER_JOBS)} as s(${SETTLEMENT_NAMES})),
  freed as (
    select id, account, callback is not null as has_callback, 0 as deaths, created_at_ms as claimed_at_ms
    from n join stored using (id)
  ),
  ${OWE_AND_KEEP}
  select 1`,
)

const LOCK_KEY = {
  name: 'lock key',
  text: 'select pg_advisory_xact_lock(hashtextextended($1 || chr(31) || $2, 0))',
}
const FIND_KEY = {
  name: 'find key',
  text: 'select fingerprint, job_ids, until_ms from idempotency where account = $1 and key = $2',
}
const REMEMBER_KEY = {
  name: 'remember key',
  text: `insert into idempotency (account, key, fingerprint, job_ids, until_ms) values ($1, $2, $3, $4, $5)
    on conflict (account, key) do update set fingerprint = $3, job_ids = $4, until_ms = $5`,
}
const COUNT_JOBS = { name: 'count jobs', text: 'select count(*) from jobs where id = any($1::uuid[])' }
