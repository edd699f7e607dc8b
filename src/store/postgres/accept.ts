/** Stores new jobs in Postgres, those of many acceptances in one statement; `fair-order.ts` gives queued ones their turns. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Job } from '../../job/job.ts'
import { Failed } from '../group-commit.ts'
import type { Acceptance, Accepted, Idempotency, NewJob, Settlement, Store } from '../store.ts'
import { requestBytesOf } from '../stored-bytes.ts'
import {
  NEW_JOB_NAMES,
  NEW_JOB_TYPES,
  newJobColumns,
  SETTLEMENT_NAMES,
  SETTLEMENT_TYPES,
  settlementColumns,
  unnest,
  weightOfJob,
  weightOfSettlement,
} from './columns.ts'
import type { Queries, Statement } from './database.ts'
import { queuedJobsInFairOrder, TURN_OF_JOB } from './fair-order.ts'
import { MAX_WEIGHT } from './groups.ts'
import type { PostgresParts } from './parts.ts'
import { QUOTA_COLUMNS } from './quotas.ts'
import { STORE_OUTCOMES } from './settle.ts'
import { hasLarge } from './text-array.ts'
import { eachAloneUntilKnown, type Mode, untilCommitKnown } from './unknown-commit.ts'

interface EndedAcceptance {
  readonly job: Job
  readonly settlement: Settlement
}

export function acceptOperations(parts: PostgresParts): Pick<Store, 'accept' | 'acceptEnded'> {
  const { groups, maxQueued, onCommit } = parts
  const limits = { maxQueued, ...(onCommit && { onCommit }) }
  const acceptances = groups.add<Acceptance, Accepted>({
    ...limits,
    weight: { of: weightOfAcceptance, max: MAX_WEIGHT },
    commit: (group) => acceptGroup(parts, group),
  })
  const ended = groups.add<EndedAcceptance, undefined>({
    ...limits,
    weight: {
      of: ({ job, settlement }) => weightOfJob(job) + weightOfSettlement(settlement),
      max: MAX_WEIGHT,
    },
    commit: (group) => eachAloneUntilKnown(group, (some, mode) => acceptEnded(parts, some, mode)),
  })
  return {
    accept: (acceptance) => acceptances.submit(acceptance, true),
    acceptEnded: (job, settlement) => ended.submit({ job, settlement }, true),
  }
}

/** Those with an idempotency key go one by one, each in a transaction of its own; the others go in one statement. */
async function acceptGroup(
  parts: PostgresParts,
  group: readonly Acceptance[],
): Promise<readonly (Accepted | Failed)[]> {
  const plain = group.filter(({ idempotency }) => idempotency === null)
  const together = eachAloneUntilKnown(plain, (some, mode) => acceptPlain(parts, some, mode))
  const keyed = group.flatMap(({ idempotency, ...acceptance }) =>
    idempotency ? [acceptKeyed(parts, acceptance, idempotency)] : [],
  )
  const [plainResults, keyedResults] = await Promise.all([together, Promise.all(keyed)])
  const [ofPlain, ofKeyed] = [plainResults.values(), keyedResults.values()]
  return group.map(({ idempotency }) => {
    const { value } = (idempotency === null ? ofPlain : ofKeyed).next()
    return value ?? new Failed(new Error('the result of an acceptance was lost'))
  })
}

/** All acceptances are of one node. All are stored, or none. */
async function acceptPlain(
  parts: PostgresParts,
  acceptances: readonly Acceptance[],
  mode: Mode,
): Promise<Accepted[]> {
  const [first] = acceptances
  if (!first) return []
  const jobs = acceptances.flatMap((acceptance) => acceptance.jobs)
  await insertJobs(parts, parts.database, { ...first, jobs }, mode)
  notifyOfQueued(parts, jobs)
  return acceptances.map(() => ({ kind: 'accepted' }))
}

async function acceptKeyed(
  parts: PostgresParts,
  acceptance: Omit<Acceptance, 'idempotency'>,
  idempotency: Idempotency,
): Promise<Accepted | Failed> {
  const accept = () => acceptOnce(parts, acceptance, idempotency)
  try {
    const accepted = await untilCommitKnown(accept, accept)
    if (accepted.kind === 'accepted') notifyOfQueued(parts, acceptance.jobs)
    return accepted
  } catch (error) {
    return new Failed(error)
  }
}

/** Only one request with the same key at a time can hold the lock. */
async function acceptOnce(
  parts: PostgresParts,
  acceptance: Omit<Acceptance, 'idempotency'>,
  { key, fingerprint, untilMs }: Idempotency,
): Promise<Accepted> {
  const { jobs, nowMs } = acceptance
  const account = jobs[0]?.job.account ?? ''
  const ids = jobs.map(({ job }) => job.id)
  return parts.database.transaction(async (queries) => {
    await queries.query(LOCK_KEY, [account, key])
    const [earlier] = await queries.query(FIND_KEY, [account, key])
    if (earlier && Number(earlier.until_ms) > nowMs) {
      if (earlier.fingerprint !== fingerprint) return { kind: 'conflict' }
      const jobIds: string[] = JSON.parse(String(earlier.job_ids))
      // The same request, whose first response was lost.
      if (jobIds[0] === ids[0]) return { kind: 'accepted' }
      // If the jobs of the earlier request no longer exist, the request is accepted again instead of returning IDs of missing
      // jobs.
      const [found] = await queries.query(COUNT_JOBS, [jobIds])
      if (Number(found?.count) === jobIds.length) return { kind: 'repeated', jobIds }
    }
    await insertJobs(parts, queries, acceptance, 'first')
    await queries.query(REMEMBER_KEY, [account, key, fingerprint, JSON.stringify(ids), untilMs])
    return { kind: 'accepted' }
  })
}

async function insertJobs(
  { queueHead }: PostgresParts,
  queries: Queries,
  { node, jobs, nowMs }: Omit<Acceptance, 'idempotency'>,
  mode: Mode,
): Promise<void> {
  const columns = newJobColumns(jobs.map(({ job }) => job))
  if (hasLarge(columns)) await nextTurn()
  const origins = jobs.map(({ awaited }) => (awaited ? node : null))
  if (jobs.every(({ handedOff }) => handedOff)) {
    await queries.query(ACCEPT_HELD[mode], [node, ...columns, origins, Math.floor(nowMs)])
    return
  }
  const handedOff = jobs.map((job) => job.handedOff)
  const steps = jobs.map(({ step }) => step)
  const routes = jobs.map(({ route }) => route ?? '')
  const values = [node, ...columns, origins, handedOff, steps, routes, queueHead.turn, Math.floor(nowMs)]
  const [placed] = await queries.query(ACCEPT[mode], values)
  if (placed?.turn != null) queueHead.joined(Number(placed.turn))
}

function notifyOfQueued({ notifications, queueHead }: PostgresParts, jobs: readonly NewJob[]): void {
  if (jobs.some(({ handedOff }) => !handedOff)) notifications.jobQueued(queueHead.turn)
}

/** All are stored, or none. */
async function acceptEnded(
  { database }: PostgresParts,
  acceptances: readonly EndedAcceptance[],
  mode: Mode,
): Promise<undefined[]> {
  const [first] = acceptances
  if (!first) return []
  const columns = newJobColumns(acceptances.map(({ job }) => job))
  const outcomes = settlementColumns(acceptances.map(({ settlement }) => settlement))
  if (hasLarge(columns) || hasLarge(outcomes)) await nextTurn()
  await database.query(ACCEPT_ENDED[mode], [first.settlement.node, ...columns, ...outcomes])
  return acceptances.map(() => undefined)
}

function weightOfAcceptance({ jobs }: Acceptance): number {
  return jobs.reduce((total, { job }) => total + weightOfJob(job), 0)
}

const JOBS_FROM = 2
const AFTER_JOBS = JOBS_FROM + NEW_JOB_TYPES.length

const modes = (name: string, text: (onConflict: string) => string): Readonly<Record<Mode, Statement>> => ({
  first: { name, text: text('') },
  again: { name: `${name} again`, text: text('on conflict (id) do nothing') },
})

/** Null if the account does not exist, which the column does not allow: the statement fails with `UnknownAccount`. */
const KNOWN_ACCOUNT = '(select name from accounts where name = n.account)'
const CHECKED_JOB_NAMES = NEW_JOB_NAMES.replace(' account,', ` ${KNOWN_ACCOUNT},`)

const insertedJobs = (onConflict: string) =>
  `stored as (insert into jobs (${NEW_JOB_NAMES}) select ${CHECKED_JOB_NAMES} from n ${onConflict} returning id)`

/** With `n` (the jobs) and `stored`: they are open, and what they asked is stored. */
const COUNT_OPEN = `
  counted_open as (
    insert into quota_deltas (${QUOTA_COLUMNS})
    select account, hour_of_job(id), count(*), sum(${requestBytesOf('n')}), 0 from n join stored using (id) group by 1, 2
  )`

/** $1 node, then the columns of jobs, then origins, then now. */
const ACCEPT_HELD = modes(
  'accept held',
  (onConflict) => `
  with n as (select * from ${unnest([...NEW_JOB_TYPES, 'text'], JOBS_FROM)} as n(${NEW_JOB_NAMES}, origin)),
  ${insertedJobs(onConflict)},
  ${COUNT_OPEN}
  insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin, bytes)
  select id, account, callback is not null, null, $1::text, 1, 0, $${AFTER_JOBS + 1}::bigint, origin, ${requestBytesOf('n')}
  from n join stored using (id)`,
)

const TURN = `$${AFTER_JOBS + 4}::bigint`

/** $1 node, then the columns of jobs, then origins, whether handed off, steps, routes, the queue's turn as the node knows it, now. */
const ACCEPT = modes(
  'accept',
  (onConflict) => `
  with n as (
    select * from ${unnest([...NEW_JOB_TYPES, 'text', 'boolean', 'bigint', 'text'], JOBS_FROM)}
      with ordinality as n(${NEW_JOB_NAMES}, origin, handed_off, step, route, place)
  ),
  ${insertedJobs(onConflict)},
  ${COUNT_OPEN},
  ${queuedJobsInFairOrder(TURN)},
  placed as (
    insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin, bytes, route)
    select n.id, n.account, n.callback is not null, ${TURN_OF_JOB},
      case when handed_off then $1::text end, case when handed_off then 1 else 0 end, 0,
      case when handed_off then $${AFTER_JOBS + 5}::bigint end, origin, ${requestBytesOf('n')}, n.route
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
  ${insertedJobs(onConflict)},
  s as (select * from ${unnest(SETTLEMENT_TYPES, AFTER_JOBS)} as s(${SETTLEMENT_NAMES})),
  freed as (
    select id, account, callback is not null as has_callback, 0 as deaths, created_at_ms as claimed_at_ms,
      ${requestBytesOf('n')} as bytes, 0 as was_open
    from n join stored using (id)
  ),
  ${STORE_OUTCOMES}
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
