/**
 * The single creates that wait for their job on this node. There may be tens of thousands, so a wait is one small object
 * with one function.
 */
import type { Clock } from '../clock.ts'
import type { JobRecord } from '../job/job-record.ts'

/** How a wait ended. `vanished`: the job no longer exists; `stopping`: the server does not wait any longer. */
export type WaitEnd =
  | { readonly kind: 'settled'; readonly view: JobRecord; readonly cacheHit: boolean }
  | { readonly kind: 'timeout' | 'stopping' | 'vanished' }

export class PendingResponse {
  readonly jobId: string
  readonly end: Promise<WaitEnd>
  /** Ends the wait as if its time had passed. */
  readonly leave: () => void
  /** Another wait for the same job: a repeated request. */
  next: PendingResponse | null = null
  #resolve: (end: WaitEnd) => void = () => {}
  readonly #cancelTimer: () => void

  constructor(jobId: string, clock: Clock, ms: number, onLeave: (wait: PendingResponse) => void) {
    this.jobId = jobId
    this.end = new Promise((resolve) => {
      this.#resolve = resolve
    })
    this.leave = () => {
      onLeave(this)
      this.finish({ kind: 'timeout' })
    }
    this.#cancelTimer = clock.after(ms, this.leave)
  }

  finish(end: WaitEnd): void {
    this.#cancelTimer()
    this.#resolve(end)
  }
}

export class PendingResponses {
  /** The latest wait for each job; earlier ones hang on it. */
  readonly #waiting = new Map<string, PendingResponse>()
  readonly #clock: Clock
  readonly #max: number
  readonly #onLeave = (wait: PendingResponse) => this.#remove(wait)
  #count = 0
  #stopping = false

  constructor(clock: Clock, max: number) {
    this.#clock = clock
    this.#max = max
  }

  get count(): number {
    return this.#count
  }

  /**
   * Begins to wait for a job; to be called before the job could be settled. Returns null when waiting is not possible:
   * too many wait already, or the server is stopping.
   */
  wait(jobId: string, ms: number): PendingResponse | null {
    if (this.#stopping || this.#count >= this.#max) return null
    const wait = new PendingResponse(jobId, this.#clock, ms, this.#onLeave)
    wait.next = this.#waiting.get(jobId) ?? null
    this.#waiting.set(jobId, wait)
    this.#count += 1
    return wait
  }

  /** The jobs that are waited for. */
  jobIds(): string[] {
    return [...this.#waiting.keys()]
  }

  settled(view: JobRecord, cacheHit: boolean): void {
    this.#endAll(view.id, { kind: 'settled', view, cacheHit })
  }

  vanished(jobId: string): void {
    this.#endAll(jobId, { kind: 'vanished' })
  }

  /** Ends every wait, and lets no new one begin. */
  stop(): void {
    this.#stopping = true
    for (const jobId of [...this.#waiting.keys()]) this.#endAll(jobId, { kind: 'stopping' })
  }

  #endAll(jobId: string, end: WaitEnd): void {
    let wait = this.#waiting.get(jobId) ?? null
    this.#waiting.delete(jobId)
    for (; wait; wait = wait.next) {
      this.#count -= 1
      wait.finish(end)
    }
  }

  /** Does nothing for a wait that has ended. */
  #remove(gone: PendingResponse): void {
    const latest = this.#waiting.get(gone.jobId) ?? null
    if (latest === gone) {
      if (gone.next) this.#waiting.set(gone.jobId, gone.next)
      else this.#waiting.delete(gone.jobId)
      this.#count -= 1
      return
    }
    for (let wait = latest; wait; wait = wait.next) {
      if (wait.next !== gone) continue
      wait.next = gone.next
      this.#count -= 1
    }
  }
}
