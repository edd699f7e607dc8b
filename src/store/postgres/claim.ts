/** Claims queued jobs in Postgres: in fair order, or an account's first job each. */

import { leastJobId } from '../../job/job-id.ts'
import { numberOf, type Row, textOf } from '../rows.ts'
import type { ClaimBounds, Claimed, OverdueBounds, PoisonCandidates, RouteBounds, Store } from '../store.ts'
import {
  CLAIM,
  CLAIM_CANDIDATE_OF_ROUTE,
  CLAIM_EXCEPT,
  CLAIM_FIRST,
  CLAIM_FIRST_EXCEPT,
  CLAIM_OF,
  CLAIM_OF_EXCEPT,
  CLAIM_OF_ROUTE,
  CLAIM_OVERDUE,
  CLAIM_OVERDUE_CANDIDATE,
} from './claim-statements.ts'
import { readClaimedJob } from './columns.ts'
import type { Statement } from './database.ts'
import type { PostgresParts } from './parts.ts'

/** Accounts that one claim examines in addition to those that it must not claim for and those that it claims for. */
const MAX_PASSED_OVER = 256
const BEFORE_ALL_ACCOUNTS = ''
/** A crash count that no job reaches. */
const NEVER = 2_147_483_647
const NO_CANDIDATES: PoisonCandidates = { crashCount: NEVER, limit: 0, maxCrashCount: NEVER }

export function claimOperations({ database, queueHead }: PostgresParts): Pick<Store, 'claim'> {
  /** The account that was looked at last by a search by account. */
  let cursor = BEFORE_ALL_ACCOUNTS
  const searchTime = new SearchTime()

  const claimHead = async (node: string, limit: number, nowMs: number, bounds: ClaimBounds) => {
    const { crashCount, limit: most, maxCrashCount } = bounds.candidates ?? NO_CANDIDATES
    const except = exceptRoutesOf(bounds)
    const walk = queueHead.begin(performance.now(), except.length > 0)
    const values = [node, walk.fromTurn, limit, crashCount, Math.min(limit, most), nowMs, ...bytesOf(bounds)]
    const statement = except.length === 0 ? CLAIM : CLAIM_EXCEPT
    const rows = await database.query(statement, [...values, maxCrashCount, ...except])
    // Jobs that crashed are found wherever the walk begins.
    const walked = rows.filter(({ deaths }) => deaths === 0)
    const turns = walked.filter(isClaimed).map((row) => numberOf(row, 'turn'))
    queueHead.end(walk, turns.length === 0 ? null : Math.max(...turns), performance.now())
    const left = walked.find((row) => !isClaimed(row))
    if (left) queueHead.joined(numberOf(left, 'turn'))
    return claimedOf(rows)
  }

  const claimOf = async (node: string, account: string, nowMs: number, bounds: ClaimBounds) => {
    const except = exceptRoutesOf(bounds)
    const values = [node, account, crashCountOf(bounds), nowMs, ...bytesOf(bounds), ...except]
    return claimedOf(await database.query(except.length === 0 ? CLAIM_OF : CLAIM_OF_EXCEPT, values))
  }

  const claimOfRoute = async (
    node: string,
    limit: number,
    nowMs: number,
    bounds: ClaimBounds,
    ofRoute: RouteBounds,
  ): Promise<Claimed> => {
    const claim = async (statement: Statement, most: number, extra: readonly unknown[]) => {
      const values = [node, most, ofRoute.route, crashCountOf(bounds), nowMs, ...bytesOf(bounds)]
      const rows = await database.query(statement, [...values, ...extra])
      // The turn of a job that is overdue is not how far the queue has been claimed.
      if (ofRoute.overdue === undefined) {
        for (const row of rows) if (isClaimed(row)) queueHead.reached(numberOf(row, 'turn'))
      }
      return claimedOf(rows)
    }
    const { candidates = NO_CANDIDATES } = bounds
    const mostCandidates = Math.min(limit, candidates.limit)
    if (ofRoute.overdue !== undefined) {
      const times = overdueTimes(nowMs, ofRoute.overdue)
      const claimed = await claim(CLAIM_OVERDUE, limit, times)
      if (!isEmpty(claimed) || mostCandidates === 0) return claimed
      return claim(CLAIM_OVERDUE_CANDIDATE, mostCandidates, [...times, candidates.maxCrashCount])
    }
    const { onlyIfAlone } = ofRoute
    let claimed = await claim(CLAIM_OF_ROUTE, limit, [onlyIfAlone])
    if (isEmpty(claimed) && onlyIfAlone.length > 0) claimed = await claim(CLAIM_OF_ROUTE, limit, [[]])
    if (!isEmpty(claimed) || mostCandidates === 0) return claimed
    return claim(CLAIM_CANDIDATE_OF_ROUTE, mostCandidates, [[], candidates.maxCrashCount])
  }

  /** Looks at the accounts after the cursor; returns what it found, and whether that was nothing at all. */
  const searchFirst = async (
    node: string,
    limit: number,
    values: readonly unknown[],
    exceptRoutes: readonly [] | readonly [readonly string[]],
  ) => {
    const statement = exceptRoutes.length === 0 ? CLAIM_FIRST : CLAIM_FIRST_EXCEPT
    const rows = await database.query(statement, [node, limit, cursor, ...values, ...exceptRoutes])
    const last = rows.at(-1)
    cursor = last ? textOf(last, 'account') : BEFORE_ALL_ACCOUNTS
    return { ...claimedOf(rows), isEmpty: last === undefined }
  }

  /** Goes around all accounts, a part of them at a time, until one has a job that fits. */
  const claimFirst = async (
    node: string,
    limit: number,
    nowMs: number,
    bounds: ClaimBounds,
    except: readonly string[],
  ): Promise<Claimed> => {
    const most = except.length + limit + MAX_PASSED_OVER
    const values = [crashCountOf(bounds), nowMs, ...bytesOf(bounds), except, most]
    let tooLarge: Claimed['tooLarge'] = null
    let hasWrapped = cursor === BEFORE_ALL_ACCOUNTS
    for (let startedMs = performance.now(); !searchTime.isSpent(startedMs); startedMs = performance.now()) {
      const found = await searchFirst(node, limit, values, exceptRoutesOf(bounds))
      searchTime.spend(performance.now() - startedMs)
      tooLarge ??= found.tooLarge
      if (found.jobs.length > 0) return { jobs: found.jobs, tooLarge }
      if (found.isEmpty && hasWrapped) break
      hasWrapped ||= found.isEmpty
    }
    return { jobs: [], tooLarge }
  }

  return {
    claim: (node, limit, nowMs, bounds = {}) => {
      const atMs = Math.floor(nowMs)
      const { exceptOf, ofAccount, ofRoute } = bounds
      if (ofRoute !== undefined) return claimOfRoute(node, limit, atMs, bounds, ofRoute)
      if (ofAccount !== undefined) return claimOf(node, ofAccount, atMs, bounds)
      if (exceptOf !== undefined) return claimFirst(node, limit, atMs, bounds, exceptOf)
      return claimHead(node, limit, atMs, bounds)
    },
  }
}

/**
 * How much time the searches by account may take: a tenth, after the first second. Entries of claimed jobs stay in the index as
 * long as any older snapshot exists, and a search has to walk those of the accounts that it passes.
 */
class SearchTime {
  #spentMs = 0
  #atMs = 0

  isSpent(steadyMs: number): boolean {
    this.#spentMs = Math.max(0, this.#spentMs - (steadyMs - this.#atMs) / 10)
    this.#atMs = steadyMs
    return this.#spentMs > 1000
  }

  spend(ms: number): void {
    this.#spentMs += ms
  }
}

function isEmpty({ jobs, tooLarge }: Claimed): boolean {
  return jobs.length === 0 && tooLarge === null
}

/** Since when the route has been unavailable, before when a wait must have begun, and the least id of that time. */
function overdueTimes(nowMs: number, { unavailableSinceMs, patienceMs }: OverdueBounds): readonly unknown[] {
  const beforeMs = nowMs - patienceMs
  return [Math.floor(unavailableSinceMs), Math.floor(beforeMs), leastJobId(beforeMs)]
}

function crashCountOf({ candidates }: ClaimBounds): number {
  return (candidates ?? NO_CANDIDATES).crashCount
}

function bytesOf({ bytes }: ClaimBounds): readonly [small: number, max: number] {
  return bytes ? [bytes.small, bytes.max] : [Number.MAX_SAFE_INTEGER, 0]
}

/** A parameter if there is one. */
function exceptRoutesOf({ exceptRoutes = [] }: ClaimBounds): readonly [] | readonly [readonly string[]] {
  return exceptRoutes.length === 0 ? [] : [exceptRoutes]
}

function claimedOf(rows: readonly Row[]): Claimed {
  const left = rows.find((row) => !isClaimed(row))
  const tooLarge = left ? { account: textOf(left, 'account'), bytes: numberOf(left, 'bytes') } : null
  return { jobs: rows.filter(isClaimed).map(readClaimedJob), tooLarge }
}

/** One that is too large is returned without an attempt and without its texts. */
function isClaimed({ attempt }: Row): boolean {
  return attempt !== null
}
