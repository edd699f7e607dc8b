/**
 * How far the queue of each route has been claimed, and where its next walk begins. A walk moves its place past the jobs that it
 * passes over; one that joins the queue before a place moves the place back. Only in memory: after a start, every walk begins
 * at the front.
 */

/** A place in the queue of a route: that of a job, whether there is one. */
export interface Place {
  readonly turn: number
  readonly id: string
}

const LEAST_ID = '00000000-0000-0000-0000-000000000000'
export const FRONT: Place = { turn: 0, id: LEAST_ID }

export function isBefore(one: Place, other: Place): boolean {
  return one.turn < other.turn || (one.turn === other.turn && one.id < other.id)
}

interface RoutePlace {
  turn: number
  place: Place
}

export class RoutePlaces {
  readonly #routes = new Map<string, RoutePlace>()
  #node = ''

  /** How far the route has been claimed: a job that joins its queue gets no lesser turn. */
  turn(route: string): number {
    return this.#routes.get(route)?.turn ?? 0
  }

  /** Where the next walk of the route begins. */
  place(route: string): Place {
    return this.#routes.get(route)?.place ?? FRONT
  }

  /** A job with this turn, or a greater one, joins the queue of the route. */
  joined(route: string, turn: number): void {
    const state = this.#routes.get(route)
    if (state !== undefined && turn <= state.place.turn) state.place = { turn, id: LEAST_ID }
  }

  moved(route: string, place: Place): void {
    this.#of(route).place = place
  }

  /** Jobs up to this turn were claimed. What is claimed beyond the place, past jobs that wait, is not how far the route is. */
  claimed(route: string, turn: number): void {
    const state = this.#of(route)
    state.turn = Math.max(state.turn, Math.min(turn, state.place.turn))
  }

  /** Any node has claimed the route that far. */
  reached(route: string, turn: number): void {
    const state = this.#of(route)
    state.turn = Math.max(state.turn, turn)
  }

  routes(): Iterable<string> {
    return this.#routes.keys()
  }

  /** On a database with one node: a new one does not know whose jobs the walks of the one before passed over. */
  walkedBy(node: string): void {
    if (node === this.#node) return
    this.#node = node
    this.#routes.clear()
  }

  /** Forgets everything, as a start does. */
  clear(): void {
    this.#routes.clear()
  }

  #of(route: string): RoutePlace {
    let state = this.#routes.get(route)
    if (state === undefined) {
      state = { turn: 0, place: FRONT }
      this.#routes.set(route, state)
    }
    return state
  }
}
