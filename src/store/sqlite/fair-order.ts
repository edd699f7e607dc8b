/**
 * Computes the turns of jobs that join the queue in SQLite (fair order, `job/tier.ts`). A turn depends only on the queued jobs
 * and on how far nodes have claimed the route, so nothing else is stored.
 */
import type { RoutePlaces } from '../route-places.ts'
import type { OpenFile } from './open-file.ts'

interface File extends Pick<OpenFile, 'prepare'> {
  readonly places: RoutePlaces
}

export function headTurn(file: File, route: string): number {
  const turn = file.places.turn(route)
  return Number(file.prepare(HEAD).get(route, turn)?.turn ?? turn)
}

/**
 * Returns the turn of a new job: one step after the last queued job of its account on the route, but not before the head of the
 * route.
 */
export function nextTurn(file: File, account: string, route: string, step: number): number {
  const head = headTurn(file, route)
  const last = file.prepare(LAST_OF_LANE).get(account, route)?.turn
  return typeof last === 'number' ? Math.max(head, last + step) : head
}

const HEAD = `
  select turn from jobs indexed by jobs_by_route where turn is not null and route = ? and turn >= ?
  order by turn limit 1`
const LAST_OF_LANE = `
  select max(turn) as turn from jobs indexed by jobs_in_lanes
  where turn is not null and deaths = 0 and account = ? and route = ?`
