/** Stores new jobs in Postgres, those of many acceptances in one statement. `fair-order.ts` gives queued jobs their turns. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { monthOf } from '../../job/month.ts'
import {
  CACHE_HIT_RECEIPT_JSON,
  CACHE_HIT_USAGE,
  FREE_CACHE_HIT_USAGE,
} from '../../job/results-without-call.ts'
import { storedTextOrNull } from '../compressed-text.ts'
import { Failed } from '../group-commit.ts'
import { numberOf, type Row, textOf } from '../rows.ts'
import {
  type Acceptance,
  type Accepted,
  type AnsweredJob,
  type Earlier,
  type Idempotency,
  type NewJob,
  type Store,
  StoreUnavailable,
} from '../store.ts'
import { requestBytesOf } from '../stored-bytes.ts'
import { arrays, NEW_JOB_NAMES, NEW_JOB_TYPES, newJobColumns, unnest, weightOfJob } from './columns.ts'
import type { Statement } from './database.ts'
import { queuedJobsInFairOrder, TURN_OF_JOB } from './fair-order.ts'
import { MAX_WEIGHT, type PostgresParts } from './parts.ts'
import { QUOTA_COLUMNS } from './quotas.ts'
import { STORE_OUTCOMES } from './settle.ts'
import { hasLarge, storedTexts, textOf as textOfColumn } from './texts.ts'
import { eachAloneUntilKnown, type Mode } from './unknown-commit.ts'

/**
 * A group has at most this many acceptances, because each idempotency key takes an entry in the database's lock table, which
 * has 6,400 entries by default.
 */
const MAX_GROUP = 128

export function acceptOperations(parts: PostgresParts): Pick<Store, 'accept' | 'findEarlier'> {
  const { groups, maxQueued, onCommit } = parts
  const cached: CachedLately = { is: false }
  const acceptances = groups.add<Acceptance, Accepted>({
    maxQueued,
    maxGroup: MAX_GROUP,
    ...(onCommit && { onCommit }),
    weight: { of: weightOfAcceptance, max: MAX_WEIGHT },
    commit: (group) => acceptGroup(parts, group, cached),
  })
  return {
    accept: (acceptance) =>
      acceptances.submit(acceptance, { sheddable: true, mayWaitMs: acceptance.mayWaitMs }),
    findEarlier: async (account, idempotency, nowMs) => {
      const { key, fingerprint } = idempotency
      const [row] = await parts.database.query(TAKEN, [account, key, fingerprint, Math.floor(nowMs)])
      return row ? earlierOf(idempotency, rememberedOf(row)) : null
    },
  }
}

interface Remembered {
  readonly fingerprint: string
  readonly jobIds: readonly string[]
}

interface CachedLately {
  is: boolean
}

interface Result {
  readonly accepted: Accepted
  /** The earlier request with the same key, or the new one; null if the acceptance has no key. */
  readonly remembered: Remembered | null
}

/**
 * Of several acceptances with the same key, only the first is sent to the database, and its result usually decides the others.
 *
 * The statement that cannot use cached responses costs the database half as much as the one that can. So it is tried first,
 * unless there were cached responses for the last group. Acceptances that it leaves out are sent again.
 */
async function acceptGroup(
  parts: PostgresParts,
  group: readonly Acceptance[],
  cached: CachedLately,
): Promise<readonly (Accepted | Failed)[]> {
  const results = new Map<Acceptance, Accepted | Failed>()
  const found = { cached: false }
  let mayLeaveOut = !cached.is
  for (let waiting = group; waiting.length > 0; mayLeaveOut = false) {
    const firsts = new Map(waiting.toReversed().map((acceptance) => [keyOf(acceptance), acceptance]))
    const sent = [...firsts.values()]
    const ended = await eachAloneUntilKnown(sent, (some, mode) =>
      acceptAll(parts, some, mayLeaveOut && mode === 'first' ? 'uncached' : mode, found),
    )
    const byKey = new Map(sent.map((acceptance, index) => [keyOf(acceptance), ended[index]]))
    waiting = waiting.filter((acceptance) => {
      const key = keyOf(acceptance)
      const result = byKey.get(key) ?? new Failed(new Error('the result of an acceptance was lost'))
      if (result === 'left out') return true
      if (firsts.get(key) === acceptance) {
        results.set(acceptance, result instanceof Failed ? result : result.accepted)
      } else if (!(result instanceof Failed)) {
        // A conflict does not show whether the jobs of the earlier request still exist. An acceptance that repeats that request
        // needs a result of its own.
        if (result.accepted.kind === 'conflict' && repeats(acceptance, result.remembered)) return true
        // The first acceptance stored nothing, and this one may cost less, so it is sent again.
        if (result.accepted.kind === 'over cost cap') return true
        results.set(acceptance, resultOf(acceptance, result.remembered))
      } else if (result.error instanceof StoreUnavailable) results.set(acceptance, result)
      // The database rejected the contents of the first acceptance. This one may be a different request, so it is sent again.
      else return true
      return false
    })
  }
  cached.is = found.cached
  return group.map((acceptance) => results.get(acceptance) ?? new Failed(new Error('no result')))
}

function keyOf({ idempotency, jobs }: Acceptance): string {
  const [first] = jobs
  return idempotency === null ? (first?.job.id ?? '') : `${first?.job.account} ${idempotency.key}`
}

function repeats({ idempotency }: Acceptance, remembered: Remembered | null): boolean {
  return remembered?.fingerprint === idempotency?.fingerprint
}

function resultOf(acceptance: Acceptance, remembered: Remembered | null): Accepted {
  // The same job ID means that this acceptance itself was stored, and that the first response to it was lost.
  if (remembered === null || remembered.jobIds[0] === acceptance.jobs[0]?.job.id) return { kind: 'accepted' }
  return earlierOf(acceptance.idempotency, remembered)
}

function earlierOf(idempotency: Idempotency | null, { fingerprint, jobIds }: Remembered): Earlier {
  return fingerprint === idempotency?.fingerprint ? { kind: 'repeated', jobIds } : { kind: 'conflict' }
}

/**
 * Stores acceptances in one statement, except those that it leaves out, whose key is taken, or that would exceed their cost
 * cap. They must be from one node and have different keys.
 * @param mode `uncached` leaves out acceptances whose jobs may have cached responses, and is otherwise like `first`
 * @param found the function sets `cached` if there were cached responses
 */
async function acceptAll(
  { database, walks, notifications, others }: PostgresParts,
  acceptances: readonly Acceptance[],
  mode: Mode | 'uncached',
  found: { cached: boolean },
): Promise<(Result | 'left out')[]> {
  const jobs = acceptances.flatMap((acceptance) => acceptance.jobs)
  const messages = await storedTexts(
    jobs.map(({ job }) => job.messagesJson),
    others.isKnownToAbsent('compressed_texts'),
  )
  const columns = newJobColumns(
    jobs.map(({ job }) => job),
    messages,
  )
  if (hasLarge(columns)) await nextTurn()
  const values = valuesOf(acceptances, jobs, columns, walks.turnsJson())
  let isCapped = false
  let isKeyed = false
  for (const { costCap, idempotency } of acceptances) {
    isCapped ||= costCap !== undefined
    isKeyed ||= idempotency !== null
  }
  let isQueued = false
  for (const { handedOff } of jobs) isQueued ||= !handedOff
  const uncached = isQueued ? QUEUED : isKeyed ? KEYED : HANDED_OFF
  const rows = isCapped
    ? await database.query(ACCEPT_CAPPED[mode], [...values, ...capValues(acceptances, mode)])
    : mode === 'uncached'
      ? await database.query(uncached, values.slice(0, uncached.parameters))
      : await database.query(ACCEPT[mode], values)
  // The statement may have waited for a lock that the first try held. Only a new statement sees what that try stored.
  if (mode === 'again') rows.push(...(await database.query(ANSWERED, [jobs.map(({ job }) => job.id)])))
  const taken = new Map<number, Remembered>()
  const contents = new Map<string, string | null>()
  const over = new Map<number, number>()
  const leftOut = new Set<number>()
  const queued = new Map<string, number>()
  for (const row of rows) {
    if (row.kind === 'key') taken.set(numberOf(row, 'place'), rememberedOf(row))
    else if (row.kind === 'left out') leftOut.add(numberOf(row, 'place'))
    else if (row.kind === 'over') over.set(numberOf(row, 'place'), numberOf(row, 'content'))
    else if (row.kind === 'answered') contents.set(textOf(row, 'id'), storedTextOrNull(row, 'content'))
    else queued.set(textOf(row, 'route'), numberOf(row, 'turn'))
  }
  found.cached ||= leftOut.size > 0 || contents.size > 0
  const results = acceptances.map((acceptance, index): Result | 'left out' => {
    const { idempotency, jobs } = acceptance
    if (leftOut.has(index + 1)) return 'left out'
    const used = over.get(index + 1)
    if (used !== undefined) return { accepted: { kind: 'over cost cap', used }, remembered: null }
    const earlier = taken.get(index + 1) ?? null
    const accepted = withAnswered(resultOf(acceptance, earlier), jobs, contents)
    const own = idempotency && { fingerprint: idempotency.fingerprint, jobIds: jobs.map(({ job }) => job.id) }
    return { accepted, remembered: earlier ?? own }
  })
  // The turns that the first try assigned are unknown. Turn 0 makes walks look at the whole queue again.
  if (mode === 'again') for (const { route, handedOff } of jobs) if (!handedOff) queued.set(route, 0)
  for (const [route, turn] of queued) {
    walks.joined(route, turn)
    notifications.jobQueued(route, turn)
  }
  return results
}

function rememberedOf(row: Row): Remembered {
  return { fingerprint: textOf(row, 'fingerprint'), jobIds: JSON.parse(textOf(row, 'job_ids')) }
}

function withAnswered(
  accepted: Accepted,
  jobs: readonly NewJob[],
  contents: ReadonlyMap<string, string | null>,
): Accepted {
  if (accepted.kind !== 'accepted' || contents.size === 0) return accepted
  const answered = jobs.flatMap(({ job }): AnsweredJob[] => {
    const contentJson = contents.get(job.id)
    return contentJson === undefined ? [] : [{ jobId: job.id, contentJson }]
  })
  return answered.length === 0 ? accepted : { kind: 'accepted', answered }
}

function weightOfAcceptance({ jobs }: Acceptance): number {
  return jobs.reduce((total, { job }) => total + weightOfJob(job), 0)
}

/** The values are in the order of the parameters of `ACCEPT`. */
function valuesOf(
  acceptances: readonly Acceptance[],
  jobs: readonly NewJob[],
  columns: readonly unknown[],
  turnsJson: string,
): unknown[] {
  const [first] = acceptances
  const nowMs = Math.floor(first?.nowMs ?? 0)
  const keyed = acceptances.flatMap(({ idempotency, jobs }, index) => {
    return idempotency === null
      ? []
      : [{ ...idempotency, ids: jobs.map(({ job }) => job.id), jobs, place: index + 1 }]
  })
  return [
    ...columns,
    jobs.map(({ awaited }) => (awaited ? first?.node : null)),
    jobs.map(({ fingerprint }) => fingerprint ?? null),
    jobs.map(({ handedOff }) => handedOff),
    jobs.map(({ step }) => step),
    jobs.map(({ route }) => route),
    acceptances.flatMap(({ jobs }, index) => jobs.map(() => index + 1)),
    first?.node,
    nowMs,
    keyed.map(({ place }) => place),
    keyed.map(({ jobs }) => jobs[0]?.job.account),
    keyed.map(({ key }) => key),
    keyed.map(({ fingerprint }) => fingerprint),
    keyed.map(({ ids }) => JSON.stringify(ids)),
    keyed.map(({ untilMs }) => Math.floor(untilMs)),
    turnsJson,
    monthOf(nowMs),
    JSON.stringify(CACHE_HIT_USAGE),
    JSON.stringify(FREE_CACHE_HIT_USAGE),
    CACHE_HIT_RECEIPT_JSON,
  ]
}

/** `ACCEPT_CAPPED` takes these values after those of `ACCEPT`. */
function capValues(acceptances: readonly Acceptance[], mode: Mode | 'uncached'): unknown[] {
  const capped = acceptances.flatMap(({ costCap, jobs }, index) =>
    costCap === undefined ? [] : [{ place: index + 1, costCap, id: jobs[0]?.job.id }],
  )
  return [
    capped.map(({ place }) => place),
    capped.map(({ costCap }) => costCap),
    capped.map(({ id }) => (mode === 'again' ? id : null)),
  ]
}

const JOB_TYPES = [...NEW_JOB_TYPES, 'text', 'text', 'boolean', 'bigint', 'text', 'integer']
const CACHE_KEYS = `$${NEW_JOB_TYPES.length + 2}::text[]`
const REQUESTS = `$${JOB_TYPES.length}::integer[]`
const NODE = `$${JOB_TYPES.length + 1}::text`
const NOW = `$${JOB_TYPES.length + 2}::bigint`
const KEY_TYPES = ['integer', 'text', 'text', 'text', 'text', 'bigint']
const KEYS_FROM = JOB_TYPES.length + 3
const TURNS_AT = KEYS_FROM + KEY_TYPES.length
const TURNS = `$${TURNS_AT}::jsonb`
const [MONTH, USAGE, PRICED_USAGE, RECEIPT] = [1, 2, 3, 4].map((after) => `$${TURNS_AT + after}::text`)
const CAP_TYPES = ['integer', 'numeric', 'uuid']
const CAPS_FROM = TURNS_AT + 5

/** This is null if the account was deleted. The column must not be null, so the statement then fails with `UnknownAccount`. */
const KNOWN_ACCOUNT = '(select name from accounts where name = n.account)'
const CHECKED_JOB_NAMES = NEW_JOB_NAMES.replace(' account,', ` ${KNOWN_ACCOUNT},`)

const TEXT_OF_CACHED = textOfColumn('n', 'content')
const ANSWERED_NOW = `union all
    select 'answered', null, id, null, null, case when origin is not null then ${TEXT_OF_CACHED} end, null, null from n where cached_id is not null`

/** The CTE `over` has the requests that would exceed the cost cap of their account. */
const OVER = `costs as (
    select f.request, min(f.account) as account, sum(f.reserved) as cost, min(c.cap) as cap, min(c.id::text)::uuid as id
    from found f join ${unnest(CAP_TYPES, CAPS_FROM)} as c(request, cap, id) using (request)
    where f.cached_id is null and f.reserved > 0 group by f.request
  ),
  over as materialized (
    select * from over_cost_caps(
      array(select request from costs), array(select account from costs), array(select cost from costs),
      array(select cap from costs), array(select id from costs), ${MONTH}
    )
  ),
  n as materialized (select * from found where request not in (select request from over)),`

/** The keys are locked, so that no other node accepts one of them meanwhile. `taken` has the keys that are not free. */
const TAKEN_KEYS = `
  keys as (
    select * from ${unnest(KEY_TYPES, KEYS_FROM)} as keys(request, account, key, fingerprint, job_ids, until_ms)
  ),
  taken as materialized (
    select request, fingerprint, job_ids
    from taken_keys(${arrays(KEY_TYPES.slice(0, -1), KEYS_FROM)}, ${NOW})
  ),`

/** @param without the CTE with requests that are not accepted although their keys are free */
const remember = (without: string | null) => `
  remembered as (
    insert into idempotency (account, key, fingerprint, job_ids, until_ms)
    select account, key, fingerprint, job_ids, until_ms from keys where request not in (select request from taken)
      ${without === null ? '' : `and request not in (select request from ${without})`}
    order by account, key
    on conflict (account, key) do update
      set fingerprint = excluded.fingerprint, job_ids = excluded.job_ids, until_ms = excluded.until_ms
  ),`

const COUNTED_OPEN = `
  counted_open as (
    insert into quota_deltas (${QUOTA_COLUMNS})
    select account, hour_of_job(id), count(*), sum(bytes), 0, sum(coalesce(reserved, 0)) from opened group by 1, 2
  )`

const OPEN_JOB_NAMES =
  'id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin, bytes, route, deadline_ms, reserved'

const PLACED_IN_FAIR_ORDER = `
  ${queuedJobsInFairOrder(TURNS, 'opened')},
  placed as (
    insert into open_jobs (${OPEN_JOB_NAMES})
    select n.id, account, n.callback is not null, ${TURN_OF_JOB},
      case when handed_off then ${NODE} end, case when handed_off then 1 else 0 end, 0,
      case when handed_off then ${NOW} end, origin, bytes, route, deadline_ms, reserved
    from ordered n left join begins b using (account, route)
    returning route, turn
  )`

const PLACED_HERE = `
  placed as (
    insert into open_jobs (${OPEN_JOB_NAMES})
    select id, account, callback is not null, null, ${NODE}, 1, 0, ${NOW}, origin, bytes, route, deadline_ms, reserved
    from opened
  )`

const NO_ROWS = `
  select 'key' as kind, null::integer as place, null::uuid as id, null::text as fingerprint, null::text as job_ids,
    null::text as content, null::text as route, null::bigint as turn where false`
const ROWS_OF_TAKEN = `
  select 'key' as kind, request as place, null::uuid as id, fingerprint, job_ids, null as content, null as route, null::bigint as turn
  from taken`
const ROWS_OF_TURNS = `union all
  select 'turn', null, null, null, null, null, route, min(turn) from placed where turn is not null group by route`

/**
 * Acceptances with a job that has a cached response are returned as `left out`. The statement contains only the parts that the
 * group needs, because starting a statement costs more than storing a job. The most expensive parts are those for outcomes,
 * which open every partition, then those for keys and queued jobs.
 */
const acceptUncached = (
  isKeyed: boolean,
  isQueued: boolean,
): Statement & { readonly parameters: number } => ({
  // The statement takes only this many of the values of `ACCEPT`.
  parameters: isQueued ? TURNS_AT : isKeyed ? TURNS_AT - 1 : KEYS_FROM - 1,
  name: `accept uncached${isKeyed ? ' keyed' : ''}${isQueued ? ' queued' : ''}`,
  text: `
  with ${isKeyed ? TAKEN_KEYS : ''}
  left_out as materialized (
    select distinct u.request from unnest(${CACHE_KEYS}, ${REQUESTS}) as u(cache_key, request)
    where (select true from kept_answers a where a.fingerprint = u.cache_key and a.until_ms > ${NOW} limit 1)
  ),
  n as materialized (
    select * from ${unnest(JOB_TYPES, 1)} with ordinality
      as u(${NEW_JOB_NAMES}, origin, cache_key, handed_off, step, route, request, place)
    where request not in (select request from left_out) ${isKeyed ? 'and request not in (select request from taken)' : ''}
  ),
  stored as (insert into jobs (${NEW_JOB_NAMES}) select ${CHECKED_JOB_NAMES} from n),
  ${isKeyed ? remember('left_out') : ''}
  opened as (select n.*, ${requestBytesOf('n')} as bytes from n),
  ${COUNTED_OPEN},
  ${isQueued ? PLACED_IN_FAIR_ORDER : PLACED_HERE}
  ${isKeyed ? ROWS_OF_TAKEN : NO_ROWS}
  union all select 'left out', request, null, null, null, null, null, null from left_out
  ${isQueued ? ROWS_OF_TURNS : ''}`,
})

const HANDED_OFF = acceptUncached(false, false)
const KEYED = acceptUncached(true, false)
const QUEUED = acceptUncached(true, true)

/**
 * `n` has the jobs whose keys are not taken, each with the cached response that completes it, if there is one. The result has a
 * row for each taken key, for each request over its cap, and for each job that a cached response completes (only in the mode
 * `first`), and a row with the lowest queued turn of each route.
 */
const accept = (mode: Mode, isCapped: boolean): Statement => ({
  name: `accept${mode === 'again' ? ' again' : ''}${isCapped ? ' capped' : ''}`,
  text: `
  with ${TAKEN_KEYS}
  ${isCapped ? 'found' : 'n'} as materialized (
    select u.*, c.* from (
      select * from ${unnest(JOB_TYPES, 1)} with ordinality
        as u(${NEW_JOB_NAMES}, origin, cache_key, handed_off, step, route, request, place)
    ) u left join lateral (
      select o.id as cached_id, o.content, o.content_zstd, o.content_bytes from kept_answers a join outcomes o on o.id = a.job_id
      where a.fingerprint = u.cache_key and a.until_ms > ${NOW} ${mode === 'again' ? 'and not exists (select 1 from jobs j where j.id = u.id)' : ''}
      order by a.kept_at_ms desc, a.job_id desc limit 1
    ) c on true
    where u.request not in (select request from taken)
  ),
  ${isCapped ? OVER : ''}
  stored as (
    insert into jobs (${NEW_JOB_NAMES}) select ${CHECKED_JOB_NAMES} from n ${mode === 'again' ? 'on conflict (id) do nothing' : ''} returning id
  ),
  ${remember(isCapped ? 'over' : null)}
  opened as (
    select n.*, ${requestBytesOf('n')} as bytes from n join stored using (id) where cached_id is null
  ),
  ${COUNTED_OPEN},
  ${PLACED_IN_FAIR_ORDER},
  freed as (
    select id, account, callback is not null as has_callback, 0 as deaths, created_at_ms as claimed_at_ms,
      reserved, ${requestBytesOf('n')} as bytes, 0 as was_open
    from n join stored using (id) where cached_id is not null
  ),
  s as (
    select id, 1 as attempt, 'completed' as status, content, content_zstd, content_bytes, null::text as error,
      case when reserved is null then ${USAGE} else ${PRICED_USAGE} end as usage,
      ${RECEIPT} as receipt, null::text as fingerprint, 0::bigint as until_ms, ${NOW} as now_ms, model, ${MONTH} as month,
      0 as calls, 0 as input_tokens, 0 as output_tokens, true as cache_hit
    from n where cached_id is not null
  ),
  ${STORE_OUTCOMES(NODE)}
  ${ROWS_OF_TAKEN}
  ${isCapped ? `union all select 'over', request, null, null, null, used::text, null, null from over` : ''}
  ${mode === 'again' ? '' : ANSWERED_NOW}
  ${ROWS_OF_TURNS}`,
})

/** `again` repeats an acceptance whose commit had an unknown outcome. It does not change what the first try stored. */
const ACCEPT: Readonly<Record<Mode, Statement>> = {
  first: accept('first', false),
  again: accept('again', false),
}
const ACCEPT_CAPPED: Readonly<Record<Mode | 'uncached', Statement>> = {
  first: accept('first', true),
  uncached: accept('first', true),
  again: accept('again', true),
}

/** Finds the jobs of repeated acceptances ($1) that a cached response has completed. */
const ANSWERED: Statement = {
  repeatable: true,
  name: 'answered',
  text: `select 'answered' as kind, id, ${textOfColumn('outcomes', 'content')} as content from outcomes
    where id = any ($1::uuid[]) and (usage::json ->> 'cache_hit')::boolean`,
}

const TAKEN: Statement = {
  repeatable: true,
  name: 'find taken key',
  text: `select fingerprint, job_ids
    from taken_keys(array[1], array[$1::text], array[$2::text], array[$3::text], array[''], $4::bigint)`,
}
