/** Claims queued jobs in SQLite: in fair order, or an account's first job each. */
import { wholeMs } from '../../clock.ts'
import type { ClaimedJob } from '../../job/job.ts'
import { leastJobId } from '../../job/job-id.ts'
import type {
  ClaimBounds,
  ClaimBytes,
  Claimed,
  OverdueBounds,
  PoisonCandidates,
  RouteBounds,
} from '../store.ts'
import type { Cell, ServedFile } from './open-file.ts'
import { write } from './operation.ts'

/** Claimed jobs as they cross between threads: rows as `readClaimedJob` reads them. */
export interface ClaimedRows {
  readonly rows: Cell[][]
  readonly tooLarge: Claimed['tooLarge']
}

/** Accounts that one claim examines in addition to those that it must not claim for and those that it claims for. */
const MAX_PASSED_OVER = 256
const NEVER = Number.MAX_SAFE_INTEGER
const NO_CANDIDATES: PoisonCandidates = { crashCount: NEVER, limit: 0, maxCrashCount: NEVER }
const UNBOUNDED: ClaimBytes = { small: Number.MAX_SAFE_INTEGER, max: 0 }

export const claimOperations = {
  claim: write(
    (file: ServedFile, node: string, limit: number, nowMs: number, bounds: ClaimBounds): ClaimedRows => {
      const { candidates = NO_CANDIDATES, bytes = UNBOUNDED, exceptOf, ofAccount, ofRoute } = bounds
      const exceptRoutes = bounds.exceptRoutes ? JSON.stringify(bounds.exceptRoutes) : null
      const search = { candidates, exceptRoutes, taken: new Fitting(bytes) }
      const { taken } = search
      if (ofRoute !== undefined) takeOfRoute(file, limit, nowMs, ofRoute, search)
      else if (ofAccount !== undefined) takeFirstOf(file, ofAccount, search)
      else if (exceptOf !== undefined) takeFirstOfAccounts(file, limit, new Set(exceptOf), search)
      else if (exceptRoutes !== null) takeHeadOfRoutes(file, limit, search)
      else takeHeadOfQueue(file, limit, search)
      const { rows, tooLarge } = taken
      let furthest = 0
      for (const row of rows) {
        furthest = Math.max(furthest, finishRow(file, row))
        file.prepare(CLAIM).run(node, nowMs, row[0] ?? null)
      }
      // The turn of an account's first job, or of one that is overdue, is not how far the queue has been claimed.
      const isHead = exceptOf === undefined && ofAccount === undefined && ofRoute?.overdue === undefined
      if (rows.length > 0) {
        file.queue.claim(rows.length)
        if (isHead) file.fairOrder.claimed(file, furthest)
      }
      return { rows, tooLarge }
    },
  ),
}

/** Takes rows as long as their bytes allow. */
class Fitting {
  readonly rows: Cell[][] = []
  tooLarge: Claimed['tooLarge'] = null
  readonly #small: number
  #left: number

  constructor({ small, max }: ClaimBytes) {
    this.#small = small
    this.#left = max
  }

  /** Whether the row was taken. */
  take(row: Cell[]): boolean {
    const bytes = Number(row[BYTES])
    if (bytes > this.#small) {
      if (bytes > this.#left) {
        this.tooLarge ??= { account: String(row[ACCOUNT]), bytes }
        return false
      }
      this.#left -= bytes
    }
    this.rows.push(row)
    return true
  }
}

/** What a claim looks for, and where it puts what it finds. */
interface Search {
  readonly candidates: PoisonCandidates
  /** As JSON; null for none. */
  readonly exceptRoutes: string | null
  readonly taken: Fitting
}

function takeHeadOfQueue(file: ServedFile, limit: number, { candidates, taken }: Search): void {
  const { crashCount, limit: most } = candidates
  const some = Math.min(limit, most)
  const first = some > 0 ? file.cells(POISON_CANDIDATES, crashCount, some) : []
  for (const row of first) if (!taken.take(row)) return
  for (const row of file.cells(HEAD_OF_QUEUE, crashCount, limit - first.length)) if (!taken.take(row)) return
}

/** The same past other routes: finds the first jobs of each of the remaining routes, and takes the first of all. */
function takeHeadOfRoutes(
  file: ServedFile,
  limit: number,
  { candidates, exceptRoutes, taken }: Search,
): void {
  const { crashCount, limit: most } = candidates
  const except = exceptRoutes ?? NO_ROUTES
  const some = Math.min(limit, most)
  const first = some > 0 ? file.cells(POISON_CANDIDATES_EXCEPT, crashCount, except, some) : []
  for (const row of first) if (!taken.take(row)) return
  const left = limit - first.length
  const heads = file
    .cells(ROUTES_EXCEPT, except)
    .flatMap(([route]) => file.cells(HEAD_OF_ROUTE_KEYS, route ?? null, crashCount, left))
    .sort(byTurn)
  for (const [, id] of heads.slice(0, left)) {
    for (const row of file.cells(BY_ID, id ?? null)) if (!taken.take(row)) return
  }
}

function byTurn([turn, id]: readonly Cell[], [otherTurn, otherId]: readonly Cell[]): number {
  return Number(turn) - Number(otherTurn) || (String(id) < String(otherId) ? -1 : 1)
}

function takeOfRoute(
  file: ServedFile,
  limit: number,
  nowMs: number,
  bounds: RouteBounds,
  { candidates, taken }: Search,
): void {
  const { crashCount, limit: most } = candidates
  const others = rowsOfRoute(file, limit, nowMs, bounds, { least: 0, below: crashCount })
  for (const row of others) if (!taken.take(row)) return
  if (others.length > 0 || most === 0) return
  const ofCandidates = { least: crashCount, below: NEVER }
  for (const row of rowsOfRoute(file, Math.min(limit, most), nowMs, bounds, ofCandidates)) taken.take(row)
}

/** Jobs with at least the one and fewer than the other. */
interface CrashCounts {
  readonly least: number
  readonly below: number
}

function rowsOfRoute(
  file: ServedFile,
  limit: number,
  nowMs: number,
  { route, onlyIfAlone, overdue }: RouteBounds,
  crashes: CrashCounts,
): Cell[][] {
  if (overdue !== undefined) {
    const ids = overdueJobs(file, route, limit, nowMs, overdue, crashes)
    return ids.flatMap(([id]) => file.cells(BY_ID, id ?? null))
  }
  const head = (except: readonly string[]) =>
    file.cells(HEAD_OF_ROUTE, route, crashes.least, crashes.below, JSON.stringify(except), limit)
  const rows = head(onlyIfAlone)
  return rows.length === 0 ? head([]) : rows
}

/** Those that were released to wait have times of their own, and are few; the others have waited since their creation. */
function overdueJobs(
  file: ServedFile,
  route: string,
  limit: number,
  nowMs: number,
  { unavailableSinceMs, patienceMs }: OverdueBounds,
  { least, below }: CrashCounts,
): Cell[][] {
  const beforeMs = nowMs - patienceMs
  const tried = file.cells(OVERDUE_TRIED, route, unavailableSinceMs, beforeMs, least, below, limit)
  if (unavailableSinceMs > beforeMs) return tried
  const left = limit - tried.length
  return [...tried, ...file.cells(OVERDUE, leastJobId(beforeMs), route, least, below, left)]
}

/** Goes from account to account in a circle, from the one that such a claim ended at. */
function takeFirstOfAccounts(
  file: ServedFile,
  limit: number,
  except: ReadonlySet<string>,
  search: Search,
): void {
  const { fairOrder } = file
  const { taken } = search
  const startedAt = fairOrder.accountCursor
  let hasWrapped = false
  for (let looked = 0; looked < except.size + MAX_PASSED_OVER && taken.rows.length < limit; looked++) {
    const [found] = file.cells(NEXT_ACCOUNT, fairOrder.accountCursor)
    if (found === undefined) {
      if (hasWrapped) return
      hasWrapped = true
      fairOrder.accountCursor = BEFORE_ALL_ACCOUNTS
      continue
    }
    const account = String(found[0])
    if (hasWrapped && account > startedAt) return
    fairOrder.accountCursor = account
    if (!except.has(account)) takeFirstOf(file, account, search)
  }
}

function takeFirstOf(file: ServedFile, account: string, { candidates, exceptRoutes, taken }: Search): void {
  const { crashCount } = candidates
  const [row] =
    exceptRoutes === null
      ? file.cells(FIRST_OF_ACCOUNT, account, crashCount)
      : file.cells(FIRST_OF_ACCOUNT_EXCEPT, account, crashCount, exceptRoutes)
  if (row !== undefined) taken.take(row)
}

const BEFORE_ALL_ACCOUNTS = ''

/** Reads the texts of a large job, and removes the columns that only the claim uses. Returns the turn. */
function finishRow(file: ServedFile, row: Cell[]): number {
  const [turn, seq] = row.splice(TURN).map(Number)
  if (row[MESSAGES] === null) row.splice(MESSAGES, 3, ...(file.cells(TEXTS, seq ?? 0)[0] ?? []))
  return turn ?? 0
}

/** Texts of jobs up to this size are read at once; those of larger ones only when they are claimed. */
const INLINE_BYTES = 16 * 1024
const [ACCOUNT, MESSAGES, TURN, BYTES] = [1, 10, 13, 15]
const NO_ROUTES = '[]'
/** Of `octet_length` SQLite reads the head of the row only, however long the text is. */
const SIZE =
  'octet_length(r.messages) + octet_length(r.response_format) + ifnull(octet_length(r.callback), 0)'
const inline = (column: string) => `case when ${SIZE} <= ${INLINE_BYTES} then r.${column} end`

/** What a claim selects: first in the order that `readClaimedJob` takes it, and then what the claim itself uses. */
const COLUMNS = `j.id, j.account, j.tier, j.model, j.cache_ttl_s, j.input_tokens, j.created_at_ms, j.attempt, j.deaths,
  j.earlier, ${inline('messages')}, ${inline('response_format')}, ${inline('callback')}, j.turn, j.seq, ${SIZE}`

export function readClaimedJob(cells: readonly Cell[]): ClaimedJob {
  const [id, account, tier, model, ttlS, tokens, createdAtMs, attempt, deaths, earlier, ...texts] = cells
  const [messages, format, callback] = texts
  return {
    id: String(id),
    account: String(account),
    tier: String(tier),
    model: String(model),
    cacheTtlMs: wholeMs(Number(ttlS)),
    inputTokens: Number(tokens),
    createdAtMs: Number(createdAtMs),
    // The row was read before this claim counted.
    attempt: Number(attempt) + 1,
    crashCount: Number(deaths),
    messagesJson: String(messages),
    responseFormatJson: String(format),
    callbackJson: typeof callback === 'string' ? callback : null,
    ...(typeof earlier === 'string' && { earlierJson: earlier }),
  }
}

const HEAD_OF_QUEUE = `
  select ${COLUMNS} from jobs j indexed by jobs_in_line join requests r on r.seq = j.seq
  where j.turn is not null and j.deaths < ? order by j.turn, j.id limit ?`
const POISON_CANDIDATES = `
  select ${COLUMNS} from jobs j indexed by jobs_that_died join requests r on r.seq = j.seq
  where j.turn is not null and j.deaths > 0 and j.deaths >= ? order by j.turn, j.id limit ?`
const POISON_CANDIDATES_EXCEPT = `
  select ${COLUMNS} from jobs j indexed by jobs_that_died join requests r on r.seq = j.seq
  where j.turn is not null and j.deaths > 0 and j.deaths >= ? and j.route not in (select value from json_each(?))
  order by j.turn, j.id limit ?`
/** From each route to the next in the index, whatever is queued between. */
const ROUTES_EXCEPT = `
  with recursive routes (route) as (
    select min(route) from jobs indexed by jobs_by_route where turn is not null
    union all
    select (select min(j.route) from jobs j indexed by jobs_by_route where j.turn is not null and j.route > r.route)
    from routes r where r.route is not null
  )
  select route from routes where route is not null and route not in (select value from json_each(?))`
const HEAD_OF_ROUTE_KEYS = `
  select j.turn, j.id from jobs j indexed by jobs_by_route
  where j.turn is not null and j.route = ? and j.deaths < ? order by j.turn, j.id limit ?`
const HEAD_OF_ROUTE = `
  select ${COLUMNS} from jobs j indexed by jobs_by_route join requests r on r.seq = j.seq
  where j.turn is not null and j.route = ? and j.deaths >= ? and j.deaths < ?
    and j.id not in (select value from json_each(?))
  order by j.turn, j.id limit ?`
const BY_ID = `select ${COLUMNS} from jobs j join requests r on r.seq = j.seq where j.id = ?`
const OVERDUE_TRIED = `
  select id from jobs indexed by jobs_returned
  where turn is not null and attempt > 0 and waits_since_ms is not null and route = ?
    and max(waits_since_ms, ?) - waited_ms <= ? and deaths >= ? and deaths < ? limit ?`
const OVERDUE = `
  select id from jobs indexed by jobs_by_age
  where turn is not null and id < ? and route = ? and waits_since_ms is null and deaths >= ? and deaths < ?
  order by id limit ?`
const NEXT_ACCOUNT = `
  select account from jobs indexed by jobs_waiting_by_account
  where turn is not null and account > ? order by account limit 1`
const FIRST_OF_ACCOUNT = `
  select ${COLUMNS} from jobs j indexed by jobs_waiting_by_account join requests r on r.seq = j.seq
  where j.turn is not null and j.account = ? and j.deaths < ? order by j.id limit 1`
/** Looks at no more than the account's first jobs. */
const FIRST_OF_ACCOUNT_EXCEPT = `
  select ${COLUMNS} from jobs j join requests r on r.seq = j.seq where j.id = (
    select f.id from (
      select id, deaths, route from jobs indexed by jobs_waiting_by_account
      where turn is not null and account = ? order by id limit 64
    ) f
    where f.deaths < ? and f.route not in (select value from json_each(?)) order by f.id limit 1
  )`
const TEXTS = 'select messages, response_format, callback from requests where seq = ?'
const CLAIM = `
  update jobs set status = 'assigned', turn = null, node = ?, attempt = attempt + 1, claimed_at_ms = ?
  where id = ?`
