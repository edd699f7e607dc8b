/**
 * Claims queued jobs in Postgres: by a walk of a route, from one account, or suspects.
 *
 * The planner once read all of `open_jobs` for each claim, because it overestimated how many rows a claim reads. So IDs come as
 * an array, and jobs are looked up one by one. `isOnRoute` has the condition for routes.
 */
import { isBefore, type Place } from '../route-places.ts'
import { numberOf, numberOrNull, type Row, textOf, textOrNull } from '../rows.ts'
import {
  type Claimed,
  type ClaimFrom,
  type ClaimOfRoute,
  COUNTED_OF_QUEUE,
  INLINE_TEXT_BYTES,
  type QueuedSuspects,
  type Store,
  WALK_ROWS,
} from '../store.ts'
import { requestBytesOf } from '../stored-bytes.ts'
import { readClaimedJob, readTexts } from './columns.ts'
import type { Statement } from './database.ts'
import { isInLane, isOnRoute } from './fair-order.ts'
import type { PostgresParts } from './parts.ts'
import type { WalkEnd } from './route-walks.ts'
import { textOf as textOfColumn } from './texts.ts'

type ClaimMethods = Pick<Store, 'claim' | 'readTexts' | 'queued' | 'queuedSuspects' | 'queueDepths'>

export function claimOperations({ database, walks }: PostgresParts): ClaimMethods {
  const walk = async (node: string, limit: number, nowMs: number, from: ClaimOfRoute): Promise<Claimed> => {
    const { route, exceptAccounts, exceptJobs, keepsPlace } = from
    const begun = walks.begin(route, keepsPlace, performance.now())
    const most = limit + WALK_ROWS
    const values = [
      node,
      limit,
      nowMs,
      route,
      begun.from.turn,
      begun.from.id,
      most,
      exceptAccounts,
      exceptJobs,
    ]
    let rows: Row[] = []
    let end: WalkEnd | null = null
    try {
      rows = await database.query(WALK, values)
      end = endOf(rows, begun.from, most)
    } finally {
      walks.end(begun, keepsPlace ? null : end, performance.now())
    }
    const jobs = claimedOf(route, rows)
    const goesOn = !keepsPlace && end.stopped && isBefore(begun.from, end.place)
    return { jobs, mayHaveMore: jobs.length === limit || goesOn }
  }

  const claimOther = async (limit: number, route: string | null, statement: Statement, values: unknown[]) => {
    const jobs = claimedOf(route, await database.query(statement, values))
    return { jobs, mayHaveMore: jobs.length === limit }
  }

  const claimedOf = (route: string | null, rows: readonly Row[]): Claimed['jobs'] => {
    const claimed = rows.filter(({ id }) => id !== null)
    if (route !== null) for (const row of claimed) walks.claimed(route, numberOf(row, 'turn'))
    return claimed.map(readClaimedJob)
  }

  return {
    claim: (node: string, limit: number, nowMs: number, from: ClaimFrom): Promise<Claimed> => {
      const atMs = Math.floor(nowMs)
      if (from.of === 'route') return walk(node, limit, atMs, from)
      if (from.of === 'account') {
        const { route, account, exceptJobs } = from
        return claimOther(limit, route, CLAIM_OF_LANE, [node, limit, atMs, route, account, exceptJobs])
      }
      const { crashCount, maxCrashCount, exceptRoutes } = from
      return claimOther(limit, null, CLAIM_SUSPECTS, [
        node,
        limit,
        atMs,
        crashCount,
        maxCrashCount,
        exceptRoutes,
      ])
    },

    readTexts: async (jobId) => {
      const [row] = await database.query(TEXTS, [jobId])
      return row ? readTexts(row) : null
    },

    queued: async () => {
      const rows = await database.query(QUEUED)
      const [next] = rows.filter(({ route }) => route === null)
      return {
        routes: rows.flatMap((row) => (row === next ? [] : [textOf(row, 'route')])),
        nextDeadlineMs: next === undefined ? null : numberOrNull(next, 'next_deadline_ms'),
      }
    },

    queuedSuspects: async (): Promise<QueuedSuspects> => {
      const [row = {}] = await database.query(QUEUED_SUSPECTS)
      const [queued, mostCrashes] = [numberOf(row, 'queued'), numberOf(row, 'most_crashes')]
      return { queued, mostCrashes, withMost: numberOf(row, 'with_most') }
    },

    queueDepths: async () => {
      const rows = await database.query(QUEUE_DEPTHS)
      return rows.flatMap((row) => {
        const oldestId = textOrNull(row, 'oldest')
        return oldestId === null
          ? []
          : [{ route: textOf(row, 'route'), jobs: numberOf(row, 'jobs'), oldestId }]
      })
    },
  }
}

/**
 * The next walk starts at the last row that this walk read (at the last job it claimed, if it reached its limit), or at the
 * first job skipped because of `exceptJobs`, if that is earlier.
 */
function endOf(rows: readonly Row[], from: Place, most: number): WalkEnd {
  const [first = {}] = rows
  const last = first.looked === null ? rows.at(-1) : { turn: first.looked_turn, id: first.looked_id }
  const ended = last?.id == null ? from : placeOf(last)
  const excepted =
    first.excepted_id == null ? null : placeOf({ turn: first.excepted_turn, id: first.excepted_id })
  const isPinned = excepted !== null && !isBefore(ended, excepted)
  return {
    place: isPinned ? excepted : ended,
    stopped: first.looked === null || numberOf(first, 'looked') === most,
    isPinned,
  }
}

function placeOf(row: Row): Place {
  return { turn: numberOf(row, 'turn'), id: textOf(row, 'id') }
}

const TEXTS: Statement = {
  repeatable: true,
  name: 'texts of job',
  text: `select ${textOfColumn('jobs', 'messages')} as messages, response_format, callback from jobs where id = $1::uuid`,
}

const inline = (column: string, text = column) =>
  `case when bytes <= ${INLINE_TEXT_BYTES} then ${text} end as ${column}`

/**
 * The rows of the CTE `first`, which are locked, are claimed and returned in order. `octet_length` does not read large texts,
 * because they are stored outside of their rows.
 * @param looked the CTE whose columns every row gets. Without jobs, the result is one row with only these columns
 */
const claimAll = (now: string, looked: string) => `
  taken as (
    update open_jobs o set turn = null, node = $1, attempt = attempt + 1, claimed_at_ms = ${now}::bigint
    from unnest(array(select id from first), array(select turn from first)) as f(id, turn)
    where o.id = f.id returning o.id, f.turn, attempt, deaths, crashed_alone, earlier
  )
  select l.*, t.*, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, priority, deadline_ms, bytes,
    ${inline('messages', textOfColumn('j', 'messages'))}, ${inline('response_format')}, ${inline('callback')}
  from ${looked} l left join (
    taken t cross join lateral (
      select account, tier, model, cache_ttl_s, input_tokens, created_at_ms, priority, deadline_ms, messages, messages_zstd,
        response_format, callback, ${requestBytesOf('jobs')} as bytes
      from jobs where id = t.id limit 1
    ) j
  ) on true
  order by t.turn, t.id`

const NO_WALK = '(select 1 as one)'

/**
 * $1 node, $2 limit, $3 the current time, $4 route, $5 and $6 the place at which to start, $7 how many rows to read, $8
 * accounts and $9 jobs to skip. The result also has the first job of $9 that is queued at or after the start, and if the walk
 * claims fewer jobs than the limit, the last row that it read and how many rows it read.
 */
export const WALK = {
  name: 'claim of route',
  text: `
  with looked as (
    select id, turn, account, deaths from open_jobs
    where ${isOnRoute('$4')} and (turn, id) >= ($5::bigint, $6::uuid)
    order by route, turn, id limit $7::bigint
  ),
  first as (
    select o.id, o.turn from looked l cross join lateral (
      select id, turn from open_jobs where id = l.id and turn is not null and deaths = 0 limit 1 for update skip locked
    ) o
    where l.deaths = 0 and l.account <> all ($8::text[]) and l.id <> all ($9::uuid[])
    limit $2::bigint
  ),
  excepted as (
    select o.turn, o.id from unnest($9::uuid[]) as x(id) cross join lateral (
      select turn, id from open_jobs where id = x.id and turn is not null and route = $4 limit 1
    ) o
    where (o.turn, o.id) >= ($5::bigint, $6::uuid)
    order by o.turn, o.id limit 1
  ),
  ended as (
    select (select count(*) from first) < $2::bigint as at_end
  ),
  place as (
    select case when at_end then (select count(*) from looked) end as looked,
      case when at_end then (select turn from looked order by turn desc, id desc limit 1) end as looked_turn,
      case when at_end then (select id from looked order by turn desc, id desc limit 1) end as looked_id,
      (select turn from excepted) as excepted_turn, (select id from excepted) as excepted_id
    from ended
  ),
  ${claimAll('$3', 'place')}`,
}

/** $1 node, $2 limit, $3 the current time, $4 route, $5 account, $6 jobs to skip. */
export const CLAIM_OF_LANE = {
  name: 'claim of account',
  text: `
  with first as (
    select id, turn from open_jobs
    where ${isInLane('$5', '$4')} and id <> all ($6::uuid[])
    order by account, turn, id limit $2::bigint for update skip locked
  ),
  ${claimAll('$3', NO_WALK)}`,
}

/**
 * $1 node, $2 limit, $3 the current time, $4 the crash count of the suspects, $5 the crash count at which a suspect fails if
 * its last crash was alone, $6 routes to skip. A suspect that must fail is claimed only when all of its crashes are confirmed.
 */
export const CLAIM_SUSPECTS = {
  name: 'claim suspects',
  text: `
  with first as (
    select id, turn from open_jobs o
    where turn is not null and deaths > 0 and deaths = $4::integer and route <> all ($6::text[])
      and not (deaths >= $5::integer and crashed_alone = deaths
        and exists (select 1 from crashes c where c.job_id = o.id and not c.confirmed))
    order by turn, id limit $2::bigint for update skip locked
  ),
  ${claimAll('$3', NO_WALK)}`,
}

/** The recursion jumps in the index from one route to the next, without reading the jobs in between. */
const ROUTES = `with recursive routes (route) as (
    (select route from open_jobs where turn is not null order by route, turn, id limit 1)
    union all
    select (select o.route from open_jobs o where o.turn is not null and o.route > r.route order by o.route, o.turn, o.id limit 1)
    from routes r where r.route is not null
  )`

const QUEUE_DEPTHS = {
  name: 'queue depths',
  repeatable: true,
  text: `
  ${ROUTES}
  select r.route, counted.jobs, counted.oldest from routes r cross join lateral (
    select count(*) as jobs, min(id::text) as oldest from (
      select id from open_jobs where ${isOnRoute('r.route')}
      order by route, turn, id limit ${COUNTED_OF_QUEUE}
    ) q
  ) counted
  where r.route is not null`,
} as const

/** One row has the next deadline instead of a route. The offset prevents the planner from using the index of lanes. */
export const QUEUED = {
  name: 'queued',
  repeatable: true,
  text: `
  ${ROUTES}
  select r.route, null::bigint as next_deadline_ms from routes r cross join lateral (
    select 1 from (
      select deaths from open_jobs where ${isOnRoute('r.route')}
      order by route, turn, id offset 0
    ) o where deaths = 0 limit 1
  ) found
  where r.route is not null
  union all
  select null, (
    select deadline_ms from open_jobs where turn is not null and deadline_ms is not null order by deadline_ms limit 1
  )`,
} as const

export const QUEUED_SUSPECTS = {
  name: 'queued suspects',
  repeatable: true,
  text: `
  with most as (
    select coalesce((
      select deaths from open_jobs where turn is not null and deaths > 0 order by deaths desc, turn desc, id desc limit 1
    ), 0) as crashes
  )
  select crashes as most_crashes,
    (select count(*) from (select 1 from open_jobs where turn is not null and deaths > 0 limit 10000) s) as queued,
    (select count(*) from (select 1 from open_jobs where turn is not null and deaths > 0 and deaths = crashes limit 10000) s)
      as with_most
  from most`,
} as const
