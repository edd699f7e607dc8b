/**
 * Where the walks of this node start. Claimed jobs leave dead entries in the index of their route while an older snapshot
 * exists, so each walk from the front would cost more than the one before. Instead, a walk starts at the route's place, which
 * moves back when this node learns that a job has joined the queue before it.
 *
 * From time to time a walk starts at the front. It finds jobs of which the node was not notified, and jobs of nodes up to
 * version 0.3, which use one sequence of turns for all routes.
 */
import { FRONT, isBefore, type Place, RoutePlaces } from '../route-places.ts'

const WHOLE_EVERY_MS = 1000
/** Walks from the front take at most this share of the time, even with many dead entries. */
const WHOLE_SHARE = 1 / 20

export interface Walk {
  readonly route: string
  readonly from: Place
  readonly startedMs: number
  joined: number
}

export interface WalkEnd {
  readonly place: Place
  readonly stopped: boolean
  /** If true, the walk had to skip the job at this place. */
  readonly isPinned: boolean
}

/** A walk from the front may take several claims, until it reaches the place where the previous walk has stopped. */
interface Whole {
  dueMs: number
  /** The place is null if no walk from the front is in progress. */
  until: Place | null
  spentMs: number
}

export class RouteWalks {
  readonly #places = new RoutePlaces()
  readonly #wholes = new Map<string, Whole>()
  readonly #walks = new Set<Walk>()
  /** Nodes of versions up to 0.3 have claimed jobs of any route up to this turn. */
  #floor = 0

  turnsJson(): string {
    return JSON.stringify({ floor: this.#floor, routes: this.turns() })
  }

  turns(): Record<string, number> {
    const routes = [...this.#places.routes()]
    return Object.fromEntries(routes.map((route) => [route, this.#places.turn(route)]))
  }

  /** Jobs before these turns may still be queued. */
  reached(turns: Readonly<Record<string, number>>): void {
    for (const [route, turn] of Object.entries(turns)) this.#places.reached(route, turn)
  }

  setFloor(turn: number): void {
    this.#floor = turn
  }

  joined(route: string | null, turn: number): void {
    for (const one of route === null ? [...this.#places.routes()] : [route]) this.#places.joined(one, turn)
    for (const walk of this.#walks) {
      if (route === null || walk.route === route) walk.joined = Math.min(walk.joined, turn)
    }
  }

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

  /** @param end null if the walk failed or must not move the place */
  end(walk: Walk, end: WalkEnd | null, steadyMs: number): void {
    const { route, startedMs, joined } = walk
    this.#walks.delete(walk)
    if (end === null) return
    const whole = this.#wholeOf(route)
    const { until } = whole
    const isBehind = until !== null && isBefore(end.place, until)
    // The walk has read the rest of the queue, which ends before the place that the previous walk had reached.
    const seesAll = isBehind && !end.stopped && !end.isPinned
    this.#places.moved(route, seesAll ? until : end.place)
    this.#places.joined(route, joined)
    whole.spentMs += steadyMs - startedMs
    if (until === null || (isBehind && !seesAll)) return
    whole.until = null
    whole.dueMs = steadyMs + Math.max(WHOLE_EVERY_MS, whole.spentMs / WHOLE_SHARE)
  }

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
