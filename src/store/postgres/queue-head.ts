/**
 * Where in the queue this node claims next. Claimed jobs leave dead entries at the head of the queue's index, which stay as
 * long as any older snapshot exists; a claim that walked them would cost more the more was claimed. So a claim begins at the
 * turn claimed last, or at a lesser one that was queued since, as far as this node knows. From time to time it begins at the
 * very front, for jobs that this node received no notification about.
 */

const WHOLE_EVERY_MS = 1000
/** Walking the whole queue takes at most this part of the time, however many dead entries there are. */
const WHOLE_SHARE = 1 / 20

export interface Walk {
  readonly fromTurn: number
  readonly whole: boolean
  readonly startedMs: number
}

export class QueueHead {
  /** The furthest turn that any node has claimed: a job that is queued now gets no lesser one. */
  #turn = 0
  #from = 0
  /** The least turn that was queued since the last walk began. */
  #joined = Number.POSITIVE_INFINITY
  /** The least turn at which a walk that skipped jobs began: the skipped jobs may be behind `#from`. */
  #passedOverFrom = Number.POSITIVE_INFINITY
  #wholeDueMs = 0

  get turn(): number {
    return this.#turn
  }

  /** Another node has claimed that far. Jobs before that may still be queued. */
  reached(turn: number): void {
    this.#turn = Math.max(this.#turn, turn)
  }

  /** A job with this turn is queued now. */
  joined(turn: number): void {
    this.#joined = Math.min(this.#joined, turn)
    this.#from = Math.min(this.#from, turn)
  }

  /** @param passesOver whether the walk passes over jobs that a later one claims */
  begin(steadyMs: number, passesOver = false): Walk {
    const whole = steadyMs >= this.#wholeDueMs
    if (passesOver) this.#passedOverFrom = Math.min(this.#passedOverFrom, whole ? 0 : this.#from)
    else {
      this.#from = Math.min(this.#from, this.#passedOverFrom)
      this.#passedOverFrom = Number.POSITIVE_INFINITY
    }
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
