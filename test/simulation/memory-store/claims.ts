/** Claims of the reference store, and the leases and crashes of nodes. */
import type { ClaimedJob } from '../../../src/job/job.ts'
import { leastJobId } from '../../../src/job/job-id.ts'
import type {
  ClaimBounds,
  ClaimBytes,
  Claimed,
  PoisonCandidates,
  RouteBounds,
} from '../../../src/store/store.ts'
import { type JobRow, type MemoryDatabase, requestBytesOf } from './database.ts'

const ANY = Number.MAX_SAFE_INTEGER
const NO_CANDIDATES: PoisonCandidates = { crashCount: ANY, limit: 0, maxCrashCount: ANY }
/** How many jobs of an account a claim scans if it skips routes. */
const FIRST_OF_ACCOUNT = 64

export function claimOperations(db: MemoryDatabase) {
  return {
    claim(node: string, limit: number, nowMs: number, bounds: ClaimBounds = {}): Claimed {
      const taken = new Fitting(bounds.bytes ?? { small: ANY, max: 0 })
      const { exceptOf, ofAccount, ofRoute } = bounds
      if (ofRoute !== undefined) taken.all(ofRouteBounds(db, limit, nowMs, bounds, ofRoute))
      else if (ofAccount !== undefined) taken.each(firstOf(db, ofAccount, bounds))
      else if (exceptOf !== undefined) takeFirstOfAccounts(db, limit, bounds, exceptOf, taken)
      else taken.all(headOfQueue(db, limit, bounds))
      const isInOrder = exceptOf === undefined && ofAccount === undefined && ofRoute?.overdue === undefined
      for (const row of taken.rows) {
        if (isInOrder) db.turn = Math.max(db.turn, row.turn ?? 0)
        Object.assign(row, {
          status: 'assigned',
          turn: null,
          node,
          attempt: row.attempt + 1,
          claimedAtMs: nowMs,
        })
      }
      return { jobs: taken.rows.map(claimedJob), tooLarge: taken.tooLarge }
    },

    renew(node: string, leaseMs: number): boolean {
      const isKept = !db.shared || db.leases.has(node)
      db.leases.set(node, db.clockMs() + leaseMs)
      return isKept
    },

    leave(node: string): void {
      db.leases.delete(node)
    },

    revertCrashes(): number {
      const isReverted = ({ node, jobId }: { node: string; jobId: string }) =>
        db.hasLease(node) && db.jobs.get(jobId)?.outcome === null
      const reverted = db.crashes.filter(isReverted)
      db.crashes = db.crashes.filter(({ node }) => !db.hasLease(node))
      for (const { jobId } of reverted) {
        const row = db.jobs.get(jobId)
        if (row) row.crashCount = Math.max(0, row.crashCount - 1)
      }
      return reverted.length
    },

    absentNodes(): string[] {
      const unconfirmed = db.crashes.filter(({ confirmed, node }) => !confirmed && !db.hasLease(node))
      return [...new Set(unconfirmed.map(({ node }) => node))]
    },

    confirmCrashes(nodes: readonly string[], absentMs: number): void {
      for (const crash of db.crashes) {
        const isLong = nodes.includes(crash.node) && crash.countedAtMs < db.clockMs() - absentMs
        if (isLong && !db.hasLease(crash.node)) crash.confirmed = true
      }
    },
  }
}

/** Takes rows while their bytes fit. */
class Fitting {
  readonly rows: JobRow[] = []
  tooLarge: Claimed['tooLarge'] = null
  readonly #small: number
  #left: number

  constructor({ small, max }: ClaimBytes) {
    this.#small = small
    this.#left = max
  }

  /** Stops at the first row that is too large. */
  all(rows: readonly JobRow[]): void {
    for (const row of rows) if (!this.#take(row)) return
  }

  /** Skips rows that are too large. */
  each(rows: readonly JobRow[]): void {
    for (const row of rows) this.#take(row)
  }

  #take(row: JobRow): boolean {
    const bytes = requestBytesOf(row.job)
    if (bytes > this.#small) {
      if (bytes > this.#left) {
        this.tooLarge ??= { account: row.job.account, bytes }
        return false
      }
      this.#left -= bytes
    }
    this.rows.push(row)
    return true
  }
}

function claimable(db: MemoryDatabase): JobRow[] {
  return db.queued().filter(({ job }) => db.mayTake(job.id))
}

function headOfQueue(db: MemoryDatabase, limit: number, bounds: ClaimBounds): JobRow[] {
  const { crashCount, limit: most } = bounds.candidates ?? NO_CANDIDATES
  const rows = claimable(db).filter((row) => isAllowed(row, bounds))
  const candidates = rows.filter((row) => row.crashCount >= crashCount && mayFail(db, row, bounds))
  const others = rows.filter((row) => row.crashCount < crashCount)
  return [...candidates.slice(0, most), ...others].slice(0, limit)
}

/** A job that would fail because of its crashes is claimed once none of them can turn out to have been a pause. */
function mayFail(db: MemoryDatabase, { job, crashCount }: JobRow, { candidates }: ClaimBounds): boolean {
  if (crashCount < (candidates ?? NO_CANDIDATES).maxCrashCount) return true
  return !db.crashes.some(({ jobId, confirmed }) => jobId === job.id && !confirmed)
}

function isAllowed({ route }: JobRow, { exceptRoutes = [] }: ClaimBounds): boolean {
  return !exceptRoutes.includes(route)
}

function firstOf(db: MemoryDatabase, account: string, bounds: ClaimBounds): JobRow[] {
  const { crashCount } = bounds.candidates ?? NO_CANDIDATES
  const rows = claimable(db).filter(({ job }) => job.account === account)
  const looked = bounds.exceptRoutes === undefined ? rows : rows.slice(0, FIRST_OF_ACCOUNT)
  return looked.filter((row) => row.crashCount < crashCount && isAllowed(row, bounds)).slice(0, 1)
}

/** Goes through the accounts in a circle, starting after the one at which the previous such claim ended. */
function takeFirstOfAccounts(
  db: MemoryDatabase,
  limit: number,
  bounds: ClaimBounds,
  exceptOf: readonly string[],
  taken: Fitting,
): void {
  const accounts = [...new Set(claimable(db).map(({ job }) => job.account))].sort()
  const after = accounts.filter((account) => account > db.accountCursor)
  const before = accounts.filter((account) => account <= db.accountCursor)
  for (const account of [...after, ...before]) {
    if (taken.rows.length >= limit) return
    db.accountCursor = account
    if (!exceptOf.includes(account)) taken.each(firstOf(db, account, bounds))
  }
}

function ofRouteBounds(
  db: MemoryDatabase,
  limit: number,
  nowMs: number,
  bounds: ClaimBounds,
  ofRoute: RouteBounds,
): JobRow[] {
  const { crashCount, limit: most } = bounds.candidates ?? NO_CANDIDATES
  const rows = claimable(db).filter(({ route }) => route === ofRoute.route)
  const others = rows.filter((row) => row.crashCount < crashCount)
  const found = amongRoute(others, limit, nowMs, ofRoute)
  if (found.length > 0) return found
  const candidates = rows.filter((row) => row.crashCount >= crashCount && mayFail(db, row, bounds))
  return amongRoute(candidates, Math.min(limit, most), nowMs, ofRoute)
}

function amongRoute(
  rows: readonly JobRow[],
  limit: number,
  nowMs: number,
  { onlyIfAlone, overdue }: RouteBounds,
): JobRow[] {
  if (overdue === undefined) {
    const others = rows.filter(({ job }) => !onlyIfAlone.includes(job.id))
    return (others.length > 0 ? others : rows).slice(0, limit)
  }
  const { unavailableSinceMs, patienceMs } = overdue
  const beforeMs = nowMs - patienceMs
  const isOverdue = ({ job, waitsSinceMs, waitedMs }: JobRow) =>
    waitsSinceMs === null
      ? job.id < leastJobId(beforeMs) && unavailableSinceMs <= beforeMs
      : Math.max(waitsSinceMs, unavailableSinceMs) - waitedMs <= beforeMs
  return rows.filter(isOverdue).slice(0, limit)
}

function claimedJob({ job, attempt, crashCount, earlierJson }: JobRow): ClaimedJob {
  return { ...job, attempt, crashCount, ...(earlierJson !== null && { earlierJson }) }
}
