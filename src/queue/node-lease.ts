/**
 * Holds this node's lease, rescues the jobs of nodes whose lease has expired, and compares the jobs that this node holds with
 * the database. The node and the database may disagree about who holds a job after a pause, a broken connection, or a claim
 * whose response was lost. A separate thread renews the lease (`app/heartbeat.ts`), because the event loop may be busy for
 * longer than a lease.
 */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { Claim, NodeStore } from '../store/node-store.ts'
import type { Store } from '../store/store.ts'

/** The node compares its jobs with the database this often per lease duration. */
const COMPARISONS = 3
/** The node looks for dead nodes this often per lease duration. */
const LOOKS = 9
/**
 * After this fraction of a lease without a write, the database may have been unreachable for so long that leases of live nodes
 * expired. When an outage begins, a live node has renewed its lease at most 4/9 of a lease ago (`app/heartbeat.ts`).
 */
const OUTAGE = 1 / 2
/**
 * After this many leases, an absent node counts as permanently dead, and jobs may fail because of its crash. The database's
 * clock and this node's clock must both have reached that time, because either clock may jump.
 */
const ABSENT_LEASES = 10

export interface JobHolder {
  claims(): readonly Claim[]
  holds(claim: Claim): boolean
  lose(claim: Claim): unknown
  /** The lease calls this when jobs may have been queued. */
  wake(): void
  readonly assigningCalls: Pick<AssigningCalls, 'latest' | 'haveEnded'>
}

export interface Heartbeat {
  /** Stops the renewals. The lease stays until it expires. */
  stop(): Promise<void>
}

export interface NodeLeaseOptions {
  readonly store: Pick<
    NodeStore,
    'shared' | 'claimsOf' | 'leave' | 'revertCrashes' | 'absentNodes' | 'confirmCrashes'
  > &
    Pick<Store, 'rescue' | 'release'>
  readonly worker: JobHolder
  readonly node: string
  readonly clock: Clock
  readonly leaseMs: number
  /**
   * Takes the lease and keeps renewing it. Rejects if the lease cannot be taken. This is never called if no other node can
   * share the database.
   */
  readonly startHeartbeat: (onExpired: () => void) => Promise<Heartbeat>
  readonly events: NodeLeaseEvents
}

export interface NodeLeaseEvents {
  /** This many jobs of dead nodes were returned to the queue. */
  rescued(jobs: number): void
  /** This many crashes were reverted, because their nodes were only paused. */
  reverted(crashes: number): void
  /** This node's lease had expired, so other nodes may have rescued its jobs. This node stopped this many executions. */
  lost(jobs: number): void
  /** The worker held this many jobs that the database did not assign to this node. */
  gone(jobs: number): void
  error(message: string, error: unknown): void
}

export class NodeLease {
  readonly #options: NodeLeaseOptions
  readonly #loop: PollingLoop
  #heartbeat: Heartbeat | null = null
  /** Whether a renewal since the last comparison found that the lease had expired. */
  #expired = false
  #comparedMs = Number.NEGATIVE_INFINITY
  #wroteMs = Number.NEGATIVE_INFINITY
  /** Since this time, writes have reached the database without a long gap, so all live nodes could renew their leases. */
  #inTouchSinceMs = Number.POSITIVE_INFINITY
  /** Maps each absent node to the time since which every look has found it absent. */
  #absentSinceMs: ReadonlyMap<string, number> = new Map()
  /** Strays are jobs that the database assigned to this node at the last comparison, but that the worker did not hold. */
  #strays: readonly Claim[] = []
  /** The latest assigning call (`AssigningCalls`) had this number at the last comparison. */
  #strayCall = 0

  constructor(options: NodeLeaseOptions) {
    const { clock, leaseMs, events } = options
    this.#options = options
    this.#loop = new PollingLoop({
      clock,
      pauseMs: leaseMs / LOOKS,
      task: () => this.#look(),
      onError: (error) => events.error('could not compare jobs with the database; retrying', error),
    })
  }

  /**
   * Rejects if the lease cannot be taken or the database cannot be queried. If no other node can share the database, this
   * rescues all jobs instead of taking a lease.
   */
  async start(): Promise<void> {
    const { store, startHeartbeat } = this.#options
    if (store.shared) {
      this.#heartbeat = await startHeartbeat(() => {
        this.#expired = true
      })
    }
    try {
      await this.#compare()
      if (store.shared) await this.#revertCrashes()
      else await this.#rescue()
    } catch (error) {
      // If the thread continued after the failed start, it would keep the process and the lease alive.
      await this.#heartbeat?.stop()
      throw error
    }
    this.#loop.start()
  }

  /**
   * Deletes the lease, so drain the worker first. While the worker still holds jobs, the lease stays, because other nodes would
   * run those jobs again.
   */
  async stop(): Promise<void> {
    await this.#loop.stop()
    await this.#heartbeat?.stop()
    const { store, worker, node, events } = this.#options
    if (worker.claims().length > 0) return
    try {
      // If this node was paused, its lease may have expired, and other nodes may have counted crashes. No later look of this
      // node can revert them.
      await this.#revertCrashes()
      // A claim may have had no response, or a release may have failed. Without a lease, these jobs would look like those of a
      // crashed node.
      const strays = await store.claimsOf(node)
      if (strays.length > 0) await store.release(node, strays)
      await store.leave(node)
    } catch (error) {
      events.error('could not delete the lease; it will expire', error)
    }
  }

  async #look(): Promise<void> {
    const { clock, leaseMs, store } = this.#options
    const isDue = clock.steadyMs() - this.#comparedMs >= leaseMs / COMPARISONS
    if (isDue || this.#expired) await this.#compare()
    if (!store.shared) return
    await this.#revertCrashes()
    // In a long outage every lease expires. Afterwards, each node gets the time to renew its lease before it counts as dead.
    if (clock.steadyMs() - this.#inTouchSinceMs < leaseMs) return
    await this.#rescue()
    await this.#confirmCrashes()
  }

  async #compare(): Promise<void> {
    const { store, worker, node, clock, events } = this.#options
    const expired = this.#expired
    const claims = worker.claims()
    const askedMs = clock.steadyMs()
    const held = await store.claimsOf(node)
    const lost = this.#endLost(claims, held)
    if (expired) {
      // Strays are not released here, because only two comparisons a while apart prove that a job is a stray, and the previous
      // comparison may be recent.
      this.#expired = false
      events.lost(lost)
      return
    }
    this.#comparedMs = askedMs
    if (lost > 0) events.gone(lost)
    await this.#releaseStrays(held)
  }

  /** Stops the jobs that the worker held before and after the query but that the database does not assign to this node. */
  #endLost(claims: readonly Claim[], held: readonly Claim[]): number {
    const { worker } = this.#options
    const ours = new Set(held.map(keyOf))
    const lost = claims.filter((claim) => !ours.has(keyOf(claim)) && worker.holds(claim))
    for (const claim of lost) worker.lose(claim)
    return lost.length
  }

  /**
   * Releases the jobs that were strays in two comparisons in a row, because the response to their claim or release was lost. At
   * the first comparison, the response may still arrive. The same is true while a call that may have assigned the job is in
   * progress.
   */
  async #releaseStrays(held: readonly Claim[]): Promise<void> {
    const { store, worker, node } = this.#options
    if (!worker.assigningCalls.haveEnded(this.#strayCall)) return
    const before = new Set(this.#strays.map(keyOf))
    this.#strays = held.filter((claim) => !worker.holds(claim))
    this.#strayCall = worker.assigningCalls.latest
    const twice = this.#strays.filter((claim) => before.has(keyOf(claim)))
    if (twice.length === 0) return
    await store.release(node, twice)
    worker.wake()
  }

  async #revertCrashes(): Promise<void> {
    const { store, clock, leaseMs, events } = this.#options
    const askedMs = clock.steadyMs()
    const reverted = await store.revertCrashes()
    // The database may have executed the write at any moment before its response.
    const answeredMs = clock.steadyMs()
    if (answeredMs - this.#wroteMs > OUTAGE * leaseMs) {
      this.#inTouchSinceMs = answeredMs
      // The nodes that were absent before the outage may have returned during it, so the count of their absence starts again.
      this.#absentSinceMs = new Map()
    }
    this.#wroteMs = askedMs
    if (reverted > 0) events.reverted(reverted)
  }

  async #confirmCrashes(): Promise<void> {
    const { store, clock, leaseMs } = this.#options
    const absent = await store.absentNodes()
    const nowMs = clock.steadyMs()
    const sinceMs = new Map(absent.map((node) => [node, this.#absentSinceMs.get(node) ?? nowMs]))
    this.#absentSinceMs = sinceMs
    const absentMs = ABSENT_LEASES * leaseMs
    const dead = absent.filter((node) => nowMs - (sinceMs.get(node) ?? nowMs) >= absentMs)
    if (dead.length > 0) await store.confirmCrashes(dead, absentMs)
  }

  async #rescue(): Promise<void> {
    const { store, worker, node, clock, events } = this.#options
    const rescued = await store.rescue(node, clock.nowMs())
    if (rescued === 0) return
    events.rescued(rescued)
    worker.wake()
  }
}

function keyOf({ jobId, attempt }: Claim): string {
  return `${jobId} ${attempt}`
}

/**
 * Numbers the calls to the store that may assign jobs to this node: claims, and acceptances with reserved slots. The store may
 * assign a job long before its response arrives. Until then, the worker does not know about the job.
 */
export class AssigningCalls {
  readonly #open = new Set<number>()
  #latest = 0

  get latest(): number {
    return this.#latest
  }

  begin(): number {
    this.#latest += 1
    this.#open.add(this.#latest)
    return this.#latest
  }

  /** Ends a call that has failed, or whose jobs this node now holds. */
  end(call: number): void {
    this.#open.delete(call)
  }

  haveEnded(call: number): boolean {
    const [oldest = Number.POSITIVE_INFINITY] = this.#open
    return oldest > call
  }
}
