/** Claims queued jobs in SQLite: jobs of a route in fair order, jobs of one account, or suspects. */
import { wholeMs } from '../../clock.ts'
import type { Priority } from '../../job/priority.ts'
import { isBefore, type Place } from '../route-places.ts'
import { numberOf } from '../rows.ts'
import {
  type Claimed,
  type ClaimFrom,
  type ClaimOfRoute,
  COUNTED_OF_QUEUE,
  INLINE_TEXT_BYTES,
  type JobTexts,
  type QueueDepth,
  type Queued,
  type QueuedSuspects,
  WALK_ROWS,
} from '../store.ts'
import { requestBytesOf } from '../stored-bytes.ts'
import type { Cell, ServedFile } from './open-file.ts'
import { read, write } from './operation.ts'
import { asText, textOf } from './texts.ts'

interface ClaimedRows {
  readonly rows: Cell[][]
  readonly mayHaveMore: boolean
}

export const claimOperations = {
  claim: write(
    (file: ServedFile, node: string, limit: number, nowMs: number, from: ClaimFrom): ClaimedRows => {
      if (from.of !== 'suspects') file.places.walkedBy(node)
      const { ids, mayHaveMore } = find(file, limit, from)
      const rows = ids.flatMap((id) => file.cells(BY_ID, id))
      for (const row of rows) row[MESSAGES] = asText(row[MESSAGES])
      for (const id of ids) file.prepare(CLAIM).run(node, nowMs, id)
      if (from.of !== 'suspects') {
        for (const row of rows) file.places.claimed(from.route, Number(row[TURN]))
      }
      file.queue.claim(rows.length)
      return { rows, mayHaveMore }
    },
  ),

  readTexts: read((file: ServedFile, jobId: string): JobTexts | null => {
    const [row] = file.cells(TEXTS, jobId)
    return row === undefined ? null : textsOf(row)
  }),

  queued: read((file: ServedFile): Queued => {
    const rows = file.prepare(QUEUED).all()
    const [{ next_deadline_ms = null } = {}] = rows
    return {
      routes: rows.flatMap(({ route }) => (route === null ? [] : [String(route)])),
      nextDeadlineMs: next_deadline_ms === null ? null : Number(next_deadline_ms),
    }
  }),

  queueDepths: read((file: ServedFile): readonly QueueDepth[] =>
    file
      .prepare(QUEUE_DEPTHS)
      .all()
      .map((row) => ({
        route: String(row.route),
        jobs: numberOf(row, 'jobs'),
        oldestId: String(row.oldest),
      })),
  ),

  queuedSuspects: read((file: ServedFile): QueuedSuspects => {
    const row = file.prepare(QUEUED_SUSPECTS).get() ?? {}
    const [queued, mostCrashes] = [numberOf(row, 'queued'), numberOf(row, 'most_crashes')]
    return { queued, mostCrashes, withMost: numberOf(row, 'with_most') }
  }),
}

interface Found {
  readonly ids: readonly string[]
  readonly mayHaveMore: boolean
}

function find(file: ServedFile, limit: number, from: ClaimFrom): Found {
  if (from.of === 'route') return walk(file, limit, from)
  const rows =
    from.of === 'account'
      ? file.cells(LANE, from.account, from.route, JSON.stringify(from.exceptJobs), limit)
      : file.cells(SUSPECTS, from.crashCount, JSON.stringify(from.exceptRoutes), limit)
  return { ids: rows.map(([id]) => String(id)), mayHaveMore: rows.length === limit }
}

/** Reads the jobs of the route one by one, starting at the route's place (`RoutePlaces`). */
function walk(file: ServedFile, limit: number, { route, keepsPlace, ...except }: ClaimOfRoute): Found {
  const [exceptAccounts, exceptJobs] = [new Set(except.exceptAccounts), new Set(except.exceptJobs)]
  const from = file.places.place(route)
  const most = limit + WALK_ROWS
  const ids: string[] = []
  let looked = 0
  let end = from
  let firstExcepted: Place | null = null
  for (const row of file.each(WALK, route, from.turn, from.id, most)) {
    const [turn, id, account, crashCount] = [Number(row[0]), String(row[1]), String(row[2]), Number(row[3])]
    looked += 1
    end = { turn, id }
    if (exceptJobs.has(id)) firstExcepted ??= end
    else if (crashCount === 0 && !exceptAccounts.has(account)) ids.push(id)
    if (ids.length === limit) break
  }
  if (!keepsPlace) file.places.moved(route, firstExcepted ?? end)
  const goesOn = !keepsPlace && isBefore(from, firstExcepted ?? end)
  return { ids, mayHaveMore: ids.length === limit || (looked === most && goesOn) }
}

const [MESSAGES, TURN, BYTES, PRIORITY, DEADLINE] = [11, 14, 15, 16, 17]
/** SQLite computes `octet_length` from the head of the row, without reading the text. */
const SIZE = requestBytesOf('r')
const MESSAGES_TEXT = textOf('r', 'messages')
const inline = (text: string) => `case when ${SIZE} <= ${INLINE_TEXT_BYTES} then ${text} end`

/** `readClaimedJob` reads these columns by position. */
const BY_ID = `
  select j.id, j.account, j.tier, j.model, j.cache_ttl_s, j.input_tokens, j.created_at_ms, j.attempt, j.deaths, j.crashed_alone,
    j.earlier, ${[MESSAGES_TEXT, 'r.response_format', 'r.callback'].map(inline).join(', ')}, j.turn, ${SIZE}, j.priority, j.deadline_ms
  from jobs j join requests r on r.seq = j.seq where j.id = ?`

export function readClaimedJob(cells: readonly Cell[]): Claimed['jobs'][number] {
  const [id, account, tier, model, ttlS, tokens, createdAtMs, attempt, deaths, crashedAlone, earlier] = cells
  const [priority, deadlineMs] = [cells[PRIORITY], cells[DEADLINE]]
  const job = {
    id: String(id),
    account: String(account),
    tier: String(tier),
    model: String(model),
    cacheTtlMs: wholeMs(Number(ttlS)),
    inputTokens: Number(tokens),
    createdAtMs: Number(createdAtMs),
    // The claim increments the attempt after this row was read.
    attempt: Number(attempt) + 1,
    crashCount: Number(deaths),
    crashedAlone: Number(deaths) > 0 && crashedAlone === deaths,
    ...(typeof earlier === 'string' && { earlierJson: earlier }),
    ...(priority != null && { priority: priority as Priority }),
    ...(deadlineMs != null && { deadlineMs: Number(deadlineMs) }),
  }
  if (cells[MESSAGES] === null) return { ...job, textBytes: Number(cells[BYTES]) }
  return { ...job, ...textsOf(cells.slice(MESSAGES)) }
}

function textsOf([messages, responseFormat, callback]: readonly Cell[]): JobTexts {
  return {
    messagesJson: String(asText(messages)),
    responseFormatJson: String(responseFormat),
    callbackJson: typeof callback === 'string' ? callback : null,
  }
}

export const WALK = `
  select turn, id, account, deaths from jobs indexed by jobs_by_route
  where turn is not null and route = ? and (turn, id) >= (?, ?) order by turn, id limit ?`
export const LANE = `
  select id from jobs indexed by jobs_in_lanes
  where turn is not null and deaths = 0 and account = ? and route = ? and id not in (select value from json_each(?))
  order by turn, id limit ?`
export const SUSPECTS = `
  select id from jobs indexed by jobs_suspected
  where turn is not null and deaths > 0 and deaths = ? and route not in (select value from json_each(?))
  order by turn, id limit ?`
const CLAIM = `
  update jobs set status = 'assigned', turn = null, node = ?, attempt = attempt + 1, claimed_at_ms = ?
  where id = ?`
const TEXTS = `
  select ${MESSAGES_TEXT}, r.response_format, r.callback from jobs j join requests r on r.seq = j.seq where j.id = ?`
/** The recursion jumps in the index from one route to the next, without reading the jobs in between. */
const ROUTES = `with recursive routes (route) as (
    select min(route) from jobs indexed by jobs_by_route where turn is not null
    union all
    select (select min(j.route) from jobs j indexed by jobs_by_route where j.turn is not null and j.route > r.route)
    from routes r where r.route is not null
  )`
const COUNTED = `
    from (
      select id from jobs indexed by jobs_by_route where turn is not null and route = r.route
      order by turn, id limit ${COUNTED_OF_QUEUE}
    )`
const QUEUE_DEPTHS = `
  ${ROUTES}
  select r.route, (select count(*) ${COUNTED}) as jobs, (select min(id) ${COUNTED}) as oldest
  from routes r where r.route is not null`
/** The first row has the next deadline. Each of the other rows has a route. */
export const QUEUED = `
  ${ROUTES}
  select null as route, (
    select min(deadline_ms) from jobs indexed by jobs_by_deadline where turn is not null and deadline_ms is not null
  ) as next_deadline_ms
  union all
  select route, null from routes r where route is not null and exists (
    select 1 from jobs j indexed by jobs_by_route where j.turn is not null and j.route = r.route and j.deaths = 0
  )`
const MAX_COUNTED = 10_000
export const QUEUED_SUSPECTS = `
  with most (crashes) as (
    select ifnull(max(deaths), 0) from jobs indexed by jobs_suspected where turn is not null and deaths > 0
  )
  select crashes as most_crashes,
    (select count(*) from (
      select 1 from jobs indexed by jobs_suspected where turn is not null and deaths > 0 limit ${MAX_COUNTED}
    )) as queued,
    (select count(*) from (
      select 1 from jobs indexed by jobs_suspected where turn is not null and deaths > 0 and deaths = crashes limit ${MAX_COUNTED}
    )) as with_most
  from most`
