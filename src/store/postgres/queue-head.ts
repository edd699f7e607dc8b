/**
 * Where in the line this node claims next. Claimed jobs leave dead entries at the head of the line's index, which stay for
 * as long as anybody's snapshot is older; a claim that walked them would cost more the more was claimed. So a claim begins
 * at the turn claimed last, or at a lesser one that has joined since as far as this node knows. Now and then it begins at
 * the very front, for what nobody told it of.
 */

const WHOLE_EVERY_MS = 1000
/** Walking the whole line takes this part of the time at most, however many dead entries there are. */
const WHOLE_SHARE = 1 / 20

export interface Walk {
  readonly fromTurn: number
  readonly whole: boolean
  readonly startedMs: number
}

export class QueueHead {
  /** The furthest turn claimed, here or elsewhere: what joins the line now gets no lesser one. */
  #turn = 0
  #from = 0
  /** The least turn that joined since the last walk began. */
  #joined = Number.POSITIVE_INFINITY
  #wholeDueMs = 0

  get turn(): number {
    return this.#turn
  }

  /** Another node has claimed that far. It says nothing of what still waits before that. */
  reached(turn: number): void {
    this.#turn = Math.max(this.#turn, turn)
  }

  /** A job of this turn waits now. */
  joined(turn: number): void {
    this.#joined = Math.min(this.#joined, turn)
    this.#from = Math.min(this.#from, turn)
  }

  begin(steadyMs: number): Walk {
    const whole = steadyMs >= this.#wholeDueMs
    this.#joined = Number.POSITIVE_INFINITY
    return { fromTurn: whole ? 0 : this.#from, whole, startedMs: steadyMs }
  }

  /** @param furthest the greatest turn that the walk claimed; null when it claimed none */
  end({ fromTurn, whole, startedMs }: Walk, furthest: number | null, steadyMs: number): void {
    if (whole) {
      this.#wholeDueMs = steadyMs + Math.max(WHOLE_EVERY_MS, (steadyMs - startedMs) / WHOLE_SHARE)
    }
    if (furthest !== null) this.#turn = Math.max(this.#turn, furthest)
    const begun = whole ? this.#turn : fromTurn
    this.#from = Math.min(furthest ?? begun, this.#joined)
  }
}
