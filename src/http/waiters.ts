/** The single creates that wait for their job on this node. */
import type { Clock } from '../clock.ts'
import type { JobView } from '../job/view.ts'

/** How a wait ended. `vanished`: the job no longer exists; `stopping`: the server does not wait any longer. */
export type WaitEnd =
  | { readonly kind: 'settled'; readonly view: JobView; readonly cacheHit: boolean }
  | { readonly kind: 'timeout' | 'stopping' | 'vanished' }

export interface Wait {
  readonly end: Promise<WaitEnd>
  /** Waits no longer; the end is then `timeout`. */
  readonly leave: () => void
}

type End = (end: WaitEnd) => void

export class Waiters {
  readonly #waiting = new Map<string, Set<End>>()
  readonly #clock: Clock
  readonly #max: number
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
  wait(jobId: string, ms: number): Wait | null {
    if (this.#stopping || this.#count >= this.#max) return null
    let leave = () => {}
    const end = new Promise<WaitEnd>((resolve) => {
      const cancel = this.#clock.after(ms, () => finish({ kind: 'timeout' }))
      const finish: End = (how) => {
        cancel()
        this.#remove(jobId, finish)
        resolve(how)
      }
      this.#add(jobId, finish)
      leave = () => finish({ kind: 'timeout' })
    })
    return { end, leave }
  }

  settled(view: JobView, cacheHit: boolean): void {
    this.#end(view.id, { kind: 'settled', view, cacheHit })
  }

  vanished(jobId: string): void {
    this.#end(jobId, { kind: 'vanished' })
  }

  /** Ends every wait, and lets no new one begin. */
  stop(): void {
    this.#stopping = true
    for (const jobId of [...this.#waiting.keys()]) this.#end(jobId, { kind: 'stopping' })
  }

  #end(jobId: string, end: WaitEnd): void {
    const waiting = this.#waiting.get(jobId)
    if (waiting) for (const finish of [...waiting]) finish(end)
  }

  #add(jobId: string, finish: End): void {
    const waiting = this.#waiting.get(jobId)
    if (waiting) waiting.add(finish)
    else this.#waiting.set(jobId, new Set([finish]))
    this.#count += 1
  }

  #remove(jobId: string, finish: End): void {
    const waiting = this.#waiting.get(jobId)
    if (!waiting?.delete(finish)) return
    this.#count -= 1
    if (waiting.size === 0) this.#waiting.delete(jobId)
  }
}
