/**
 * Where this node's walks of the routes begin. Claimed jobs leave dead entries in the index of their route, which stay as long as
 * any older snapshot exists; a walk of them would cost more the more was claimed. So a walk begins at the route's place, which
 * moves back for jobs that join the queue, as far as this node knows. From time to time it begins at the very front, for
 * jobs that this node received no notification about, and for those of nodes up to version 0.3, whose turns are of one count
 * for all routes.
 */
import { FRONT, isBefore, type Place, RoutePlaces } from '../route-places.ts'

const WHOLE_EVERY_MS = 1000
/** Walking a whole route takes at most this part of the time, however many dead entries there are. */
const WHOLE_SHARE = 1 / 20

export interface Walk {
  readonly route: string
  readonly from: Place
  readonly startedMs: number
  /** The least turn that joined the route since. */
  joined: number
}

/** How a walk ended. */
export interface WalkEnd {
  /** Where the next one begins. */
  readonly place: Place
  /** Whether it stopped before the end of the queue. */
  readonly stopped: boolean
  /** Whether the place is that of a job that the walk was to pass over. */
  readonly isPinned: boolean
}

/** The time until a walk begins at the front again, counted from the walk that comes to where the places were before. */
interface Whole {
  dueMs: number
  /** How far the walk must come; null if none is in progress. */
  until: Place | null
  spentMs: number
}

export class RouteWalks {
  readonly #places = new RoutePlaces()
  readonly #wholes = new Map<string, Whole>()
  readonly #walks = new Set<Walk>()
  /** How far nodes up to version 0.3 have claimed, of any route. */
  #floor = 0

  /** What statements need to give jobs their turns. */
  turnsJson(): string {
    return JSON.stringify({ floor: this.#floor, routes: this.turns() })
  }

  /** How far each route has been claimed. */
  turns(): Record<string, number> {
    const routes = [...this.#places.routes()]
    return Object.fromEntries(routes.map((route) => [route, this.#places.turn(route)]))
  }

  /** Other nodes have claimed that far. Jobs before that may still be queued. */
  reached(turns: Readonly<Record<string, number>>): void {
    for (const [route, turn] of Object.entries(turns)) this.#places.reached(route, turn)
  }

  setFloor(turn: number): void {
    this.#floor = turn
  }

  /** A job with this turn is queued now; null if its route is not known. */
  joined(route: string | null, turn: number): void {
    for (const one of route === null ? [...this.#places.routes()] : [route]) this.#places.joined(one, turn)
    for (const walk of this.#walks) {
      if (route === null || walk.route === route) walk.joined = Math.min(walk.joined, turn)
    }
  }

  /** @param keepsPlace as in `ClaimOfRoute` */
  begin(route: string, keepsPlace: boolean, steadyMs: number): Walk {
    const whole = this.#wholeOf(route)
    if (!keepsPlace && steadyMs >= whole.dueMs) {
      this.#wholes.set(route, { dueMs: Infinity, until: this.#places.place(route), spentMs: 0 })
      this.#places.moved(route, FRONT)
    }
    const walk = { route, from: this.#places.place(route), startedMs: steadyMs, joined: Infinity }
    this.#walks.add(walk)
    return walk
  }

  /** @param end null if the walk does not move the place, or has failed */
  end(walk: Walk, end: WalkEnd | null, steadyMs: number): void {
    const { route, startedMs, joined } = walk
    this.#walks.delete(walk)
    if (end === null) return
    const whole = this.#wholeOf(route)
    const { until } = whole
    const isBehind = until !== null && isBefore(end.place, until)
    // It saw all there is, so nothing is queued before the place where the walk before it had come to.
    const seesAll = isBehind && !end.stopped && !end.isPinned
    this.#places.moved(route, seesAll ? until : end.place)
    this.#places.joined(route, joined)
    whole.spentMs += steadyMs - startedMs
    if (until === null || (isBehind && !seesAll)) return
    whole.until = null
    whole.dueMs = steadyMs + Math.max(WHOLE_EVERY_MS, whole.spentMs / WHOLE_SHARE)
  }

  /** Jobs of the route up to this turn were claimed. */
  claimed(route: string, turn: number): void {
    this.#places.claimed(route, turn)
  }

  #wholeOf(route: string): Whole {
    let whole = this.#wholes.get(route)
    if (whole === undefined) {
      whole = { dueMs: Infinity, until: FRONT, spentMs: 0 }
      this.#wholes.set(route, whole)
    }
    return whole
  }
}
