/**
 * How far the queue of each route has been claimed, and the place at which its next walk starts. Walks move the place forward,
 * even past most jobs that they skip. A job that joins the queue before the place moves it back. Places are only in memory, so
 * after a start the first walk of each route begins at the front.
 */

/** The queue need not contain a job with this ID. */
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

  /** New jobs get at least this turn, up to which the route has been claimed. */
  turn(route: string): number {
    return this.#routes.get(route)?.turn ?? 0
  }

  place(route: string): Place {
    return this.#routes.get(route)?.place ?? FRONT
  }

  joined(route: string, turn: number): void {
    const state = this.#routes.get(route)
    if (state !== undefined && turn <= state.place.turn) state.place = { turn, id: LEAST_ID }
  }

  moved(route: string, place: Place): void {
    this.#of(route).place = place
  }

  /** A turn after the place counts only up to the place, because jobs between them may have been skipped. */
  claimed(route: string, turn: number): void {
    const state = this.#of(route)
    state.turn = Math.max(state.turn, Math.min(turn, state.place.turn))
  }

  reached(route: string, turn: number): void {
    const state = this.#of(route)
    state.turn = Math.max(state.turn, turn)
  }

  routes(): Iterable<string> {
    return this.#routes.keys()
  }

  /** If another node claims, it does not know whose jobs earlier walks have skipped, so it starts at the front. */
  walkedBy(node: string): void {
    if (node === this.#node) return
    this.#node = node
    this.#routes.clear()
  }

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
