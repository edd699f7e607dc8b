/**
 * Holds the open requests on this node that wait for a job. Tens of thousands may wait, so each is one small object. One
 * account may use all slots except a reserve for accounts that use few, so that its requests cannot keep those of others from
 * waiting.
 */
import type { Clock } from '../clock.ts'
import type { JobRecord } from '../job/job-record.ts'
import { Counts } from '../sharing/counts.ts'
import { type FairSlotsOptions, mayAcquire, reserveOf } from '../sharing/fair-slots.ts'
import { TransientMap } from '../transient-map.ts'

/** An account may use the reserve while it uses fewer slots than this fraction of the reserve (at least 1). */
const RESERVE_PART = 1 / 16

/**
 * `vanished`: the job no longer exists. `stopping`: the server is stopping. `no slot`: the request did not wait, because no
 * slot was free.
 */
export type WaitEnd =
  | { readonly kind: 'settled'; readonly record: JobRecord; readonly cacheHit: boolean }
  | { readonly kind: 'timeout' | 'stopping' | 'vanished' | 'no slot' }

export interface PendingResponse {
  readonly jobId: string
  readonly account: string
  readonly ended: Promise<WaitEnd>
  readonly end: (end: WaitEnd) => void
  /** Ends the wait like a timeout. Does nothing if the wait has ended. */
  readonly leave: () => void
  readonly cancelTimer: () => void
  /** Several requests may wait for one job. `next` began to wait before this one. */
  next: PendingResponse | undefined
  /** Whether the job was known to exist when the wait began. Otherwise, it may not be stored yet. */
  readonly existed: boolean
  hasEnded: boolean
}

export class PendingResponses {
  /** The latest pending response for a job leads to the earlier ones by `next`. */
  readonly #latest = new TransientMap<string, PendingResponse>()
  readonly #clock: Clock
  readonly #slots: FairSlotsOptions
  /** While fewer slots than this are in use, every account may take one. */
  readonly #shared: number
  readonly #held = new Counts<string>()
  #stopping = false

  constructor(clock: Clock, max: number) {
    this.#clock = clock
    const reserve = reserveOf(max)
    this.#shared = max - reserve
    this.#slots = { limit: max, reserve, reserveUpTo: Math.max(1, Math.floor(reserve * RESERVE_PART)) }
  }

  get count(): number {
    return this.#held.total
  }

  /**
   * Call this before the job can be settled, or read the job again afterwards. Returns null if the request cannot wait: no slot
   * is free, or only the reserve is left and the account uses too many slots, or the server is stopping.
   * @param ms the timeout of the wait in milliseconds
   * @param existed whether the job exists. If so, the wait also ends when the job is deleted (`vanished`)
   */
  add(jobId: string, account: string, ms: number, existed = false): PendingResponse | null {
    if (this.#stopping) return null
    if (this.#held.total >= this.#shared && !mayAcquire(this.#slots, this.#held, account)) return null
    const { promise: ended, resolve: end } = Promise.withResolvers<WaitEnd>()
    // Every request calls `leave`, usually when its connection closes long after the response was sent.
    const leave = () => {
      if (!pending.hasEnded) this.#leave(pending)
    }
    const cancelTimer = this.#clock.after(ms, leave)
    const next = this.#latest.get(jobId)
    const pending: PendingResponse = {
      jobId,
      account,
      ended,
      end,
      leave,
      cancelTimer,
      next,
      existed,
      hasEnded: false,
    }
    this.#latest.set(jobId, pending)
    this.#held.add(account, 1)
    return pending
  }

  has(jobId: string): boolean {
    return this.#latest.get(jobId) !== undefined
  }

  jobIds(): string[] {
    return this.#latest.keys()
  }

  end(jobId: string, end: WaitEnd): void {
    let pending = this.#latest.get(jobId)
    this.#latest.delete(jobId)
    for (; pending; pending = pending.next) {
      this.#held.add(pending.account, -1)
      pending.cancelTimer()
      pending.hasEnded = true
      pending.end(end)
    }
  }

  /** Whether any wait for the job began when the job existed. */
  awaitsExisting(jobId: string): boolean {
    for (let pending = this.#latest.get(jobId); pending; pending = pending.next)
      if (pending.existed) return true
    return false
  }

  /**
   * Ends the waits that began when the job existed, because the job no longer exists. Other waits continue, because their job
   * may not be stored yet.
   */
  vanished(jobId: string): void {
    for (let pending = this.#latest.get(jobId); pending; pending = pending.next) {
      if (!pending.existed) continue
      pending.cancelTimer()
      this.#remove(pending)
      pending.hasEnded = true
      pending.end({ kind: 'vanished' })
    }
  }

  /** Ends every wait. Afterwards, no request can wait. */
  stop(): void {
    this.#stopping = true
    for (const jobId of this.#latest.keys()) this.end(jobId, { kind: 'stopping' })
  }

  #leave(left: PendingResponse): void {
    left.cancelTimer()
    this.#remove(left)
    left.hasEnded = true
    left.end({ kind: 'timeout' })
  }

  #remove(removed: PendingResponse): void {
    const latest = this.#latest.get(removed.jobId)
    if (latest === removed) {
      if (removed.next) this.#latest.set(removed.jobId, removed.next)
      else this.#latest.delete(removed.jobId)
      this.#held.add(removed.account, -1)
      return
    }
    for (let pending = latest; pending; pending = pending.next) {
      if (pending.next !== removed) continue
      pending.next = removed.next
      this.#held.add(removed.account, -1)
    }
  }
}

/**
 * A request may wait until any or all of several existing jobs have finished. It takes one slot for each job, like the requests
 * that create those jobs and wait for them.
 */
export interface JobsToAwait {
  readonly account: string
  /** The list has at least one job, and no duplicates. The caller has read these jobs before, so they existed. */
  readonly jobIds: readonly string[]
  readonly ms: number
  /** A job that no longer exists counts as finished. */
  readonly until: 'any' | 'all'
}

/**
 * `ended`: any or all of the jobs have finished, as requested. `timeout`: the wait timed out, or the caller left. `stopping`:
 * the server is stopping.
 */
export type JobWaitEnd = 'ended' | 'timeout' | 'stopping'

export interface JobWait {
  /** Resolves without the results, which may be large together. They are read only when they are sent. */
  readonly ended: Promise<JobWaitEnd>
  readonly leave: () => void
}

/**
 * Starts to wait. Jobs that finished before the call may not end the wait, so read the jobs again after the call. Returns null
 * if there is not a slot for every job.
 */
export function waitForJobs(
  pendingResponses: Pick<PendingResponses, 'add'>,
  { account, jobIds, ms, until }: JobsToAwait,
): JobWait | null {
  const open = new Set<PendingResponse>()
  const leave = () => {
    for (const pending of open) pending.leave()
    open.clear()
  }
  for (const jobId of jobIds) {
    const pending = pendingResponses.add(jobId, account, ms, true)
    if (pending === null) {
      leave()
      return null
    }
    open.add(pending)
  }
  const { promise, resolve } = Promise.withResolvers<JobWaitEnd>()
  for (const pending of open) {
    void pending.ended.then(({ kind }) => {
      open.delete(pending)
      const isOver = kind === 'timeout' || kind === 'stopping'
      if (!isOver && until === 'all' && open.size > 0) return
      resolve(isOver ? kind : 'ended')
      leave()
    })
  }
  return { ended: promise, leave }
}
