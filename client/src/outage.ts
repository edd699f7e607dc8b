/** Decides for how long a wait tolerates a server that does not respond. */
import { backoffMs } from './backoff.ts'
import type { Clock } from './clock.ts'
import { type ParleyError, RateLimitError } from './errors.ts'
import type { Logger } from './logger.ts'

const MAX_OUTAGE_MS = 300_000

export class Outage {
  readonly #clock: Clock
  readonly #logger: Logger
  #failures = 0
  #sinceMs = 0

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  over(): void {
    this.#failures = 0
  }

  /**
   * Returns how many milliseconds to wait before the next read. Throws the error if the outage has lasted too long. A rate
   * limit does not count as an outage.
   */
  failed(error: ParleyError): number {
    const { status, requestId } = error
    if (error instanceof RateLimitError) {
      this.over()
      const pauseMs = backoffMs(1, error.retryAfter)
      this.#logger.info(`waiting for jobs: ${error.message}`, { status, requestId, pauseMs })
      return pauseMs
    }
    const nowMs = this.#clock.steadyMs()
    if (this.#failures === 0) this.#sinceMs = nowMs
    else if (nowMs - this.#sinceMs > MAX_OUTAGE_MS) throw error
    this.#failures += 1
    const pauseMs = backoffMs(this.#failures, error.retryAfter)
    const forS = Math.round((nowMs - this.#sinceMs) / 1000)
    const message = `waiting for jobs: the server has not responded for ${forS} s: ${error.message}`
    this.#logger.warn(message, { status, requestId, pauseMs })
    return pauseMs
  }
}
