/** Claims jobs in the reference store, and keeps the leases and crashes of nodes. */
import type { ClaimedJob } from '../../../src/job/job.ts'
import {
  type ClaimedLargeJob,
  type ClaimFrom,
  type ClaimOfRoute,
  INLINE_TEXT_BYTES,
  type JobTexts,
  WALK_ROWS,
} from '../../../src/store/store.ts'
import {
  isBefore,
  type JobRow,
  type MemoryDatabase,
  type Place,
  placeOf,
  requestBytesOf,
} from './database.ts'
import { define } from './operations.ts'

const MAX_COUNTED = 10_000

export function claimOperations(db: MemoryDatabase) {
  return define({
    claim(node, limit, nowMs, from) {
      if (from.of !== 'suspects') db.walkedBy(node)
      const { rows, mayHaveMore } = find(db, node, limit, from)
      for (const row of rows) {
        if (from.of !== 'suspects') db.claimed(node, from.route, row.turn ?? 0)
        const attempt = row.attempt + 1
        Object.assign(row, { status: 'assigned', turn: null, node, attempt, claimedAtMs: nowMs })
      }
      return { jobs: rows.map(claimedJob), mayHaveMore }
    },

    readTexts(jobId) {
      const row = db.jobs.get(jobId)
      return row === undefined ? null : textsOf(row)
    },

    queued() {
      const rows = db.queued()
      const routes = new Set(rows.flatMap(({ route, crashCount }) => (crashCount === 0 ? [route] : [])))
      const deadlines = rows.flatMap(({ job }) => job.deadlineMs ?? [])
      return {
        routes: [...routes].sort(),
        nextDeadlineMs: deadlines.length === 0 ? null : Math.min(...deadlines),
      }
    },

    queuedSuspects() {
      const crashCounts = db.queued().flatMap(({ crashCount }) => (crashCount > 0 ? [crashCount] : []))
      const mostCrashes = Math.max(0, ...crashCounts)
      const withMost = crashCounts.filter((crashCount) => crashCount === mostCrashes).length
      return {
        queued: Math.min(crashCounts.length, MAX_COUNTED),
        mostCrashes,
        withMost: Math.min(withMost, MAX_COUNTED),
      }
    },

    recordStarts(node, claims) {
      for (const { jobId, attempt } of claims) {
        const row = db.jobs.get(jobId)
        if (row?.node === node && row.attempt === attempt) row.startedAttempt = attempt
      }
    },

    renew(node, leaseMs) {
      const isKept = !db.shared || db.leases.has(node)
      db.leases.set(node, db.clockMs() + leaseMs)
      return isKept
    },

    leave(node) {
      db.leases.delete(node)
    },

    revertCrashes() {
      const isReverted = ({ node, jobId }: { node: string; jobId: string }) =>
        db.hasLease(node) && db.jobs.get(jobId)?.outcome === null
      const reverted = db.crashes.filter(isReverted)
      db.crashes = db.crashes.filter(({ node }) => !db.hasLease(node))
      for (const { jobId } of reverted) {
        const row = db.jobs.get(jobId)
        if (row === undefined) continue
        Object.assign(row, { crashCount: Math.max(0, row.crashCount - 1), crashedAlone: false })
        if (row.turn !== null) db.joined(row.route, row.turn)
      }
      return reverted.length
    },

    absentNodes() {
      const unconfirmed = db.crashes.filter(({ confirmed, node }) => !confirmed && !db.hasLease(node))
      return [...new Set(unconfirmed.map(({ node }) => node))]
    },

    confirmCrashes(nodes, absentMs) {
      for (const crash of db.crashes) {
        const isLong = nodes.includes(crash.node) && crash.countedAtMs < db.clockMs() - absentMs
        if (isLong && !db.hasLease(crash.node)) crash.confirmed = true
      }
    },
  })
}

interface Found {
  readonly rows: readonly JobRow[]
  readonly mayHaveMore: boolean
}

function find(db: MemoryDatabase, node: string, limit: number, from: ClaimFrom): Found {
  if (from.of === 'route') return walk(db, node, limit, from)
  const queued = db.queued().filter(({ job }) => db.mayTake(job.id))
  const found = queued.filter((row) =>
    from.of === 'account'
      ? row.crashCount === 0 &&
        row.route === from.route &&
        row.job.account === from.account &&
        !from.exceptJobs.includes(row.job.id)
      : row.crashCount === from.crashCount &&
        !from.exceptRoutes.includes(row.route) &&
        mayFail(db, row, from.maxCrashCount),
  )
  const rows = found.slice(0, limit)
  return { rows, mayHaveMore: rows.length === limit }
}

/**
 * Returns false while a job with too many crashes must not fail yet, because one of the crashes may turn out to have been a
 * pause.
 */
function mayFail(db: MemoryDatabase, row: JobRow, maxCrashCount: number): boolean {
  if (row.crashCount < maxCrashCount || !row.crashedAlone) return true
  return !db.crashes.some(({ jobId, confirmed }) => jobId === row.job.id && !confirmed)
}

/** If a real store has chosen the jobs, that store has also decided where the walk begins. */
function walk(db: MemoryDatabase, node: string, limit: number, from: ClaimOfRoute): Found {
  const { route, exceptAccounts, exceptJobs, keepsPlace } = from
  const place = db.place(node, route)
  const ahead = db
    .queued()
    .filter((row) => row.route === route && (db.chosen !== null || !isBefore(row, place)))
  const most = limit + WALK_ROWS
  const rows: JobRow[] = []
  let looked = 0
  let end = place
  let pin: Place | null = null
  for (const row of ahead.slice(0, most)) {
    if (rows.length === limit) break
    looked += 1
    end = placeOf(row)
    const { id, account } = row.job
    if (exceptJobs.includes(id)) pin ??= end
    else if (row.crashCount === 0 && !exceptAccounts.includes(account) && db.mayTake(id)) rows.push(row)
  }
  const next = pin ?? end
  if (!keepsPlace) db.moved(node, route, next)
  const goesOn = looked === most && !keepsPlace && (next.turn !== place.turn || next.id !== place.id)
  return { rows, mayHaveMore: rows.length === limit || goesOn }
}

function claimedJob(row: JobRow): ClaimedJob | ClaimedLargeJob {
  const { attempt, crashCount, crashedAlone, earlierJson } = row
  const claim = { attempt, crashCount, crashedAlone, ...(earlierJson !== null && { earlierJson }) }
  const textBytes = requestBytesOf(row.job)
  // The node does not need to know what the job reserves.
  const { reserved: ____, ...whole } = row.job
  if (textBytes <= INLINE_TEXT_BYTES) return { ...whole, ...claim }
  const { messagesJson: _, responseFormatJson: __, callbackJson: ___, ...job } = whole
  return { ...job, ...claim, textBytes }
}

function textsOf({ job }: JobRow): JobTexts {
  const { messagesJson, responseFormatJson, callbackJson } = job
  return { messagesJson, responseFormatJson, callbackJson }
}
