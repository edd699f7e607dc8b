/** Claims queued jobs in Postgres: by a walk of a route, from one account, or suspects. */
import { isBefore, type Place } from '../route-places.ts'
import { numberOf, numberOrNull, type Row, textOf, textOrNull } from '../rows.ts'
import {
  type Claimed,
  type ClaimFrom,
  type ClaimOfRoute,
  type QueuedSuspects,
  type Store,
  WALK_ROWS,
} from '../store.ts'
import {
  CLAIM_OF_LANE,
  CLAIM_SUSPECTS,
  QUEUE_DEPTHS,
  QUEUED,
  QUEUED_SUSPECTS,
  WALK,
} from './claim-statements.ts'
import { readClaimedJob, readTexts } from './columns.ts'
import type { Statement } from './database.ts'
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

  /** @param route null if the jobs are of several routes */
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
 * Returns where the next walk starts: after the rows that this walk read, but not after a job that it skipped because of
 * `exceptJobs`.
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
