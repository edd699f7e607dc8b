/**
 * Holds this node's lease, rescues the jobs of nodes whose lease has ended, and settles what node and database disagree about:
 * after a pause, a broken connection or a claim whose answer was lost, each may think that the other holds a job. The lease
 * itself is renewed on a thread of its own (`app/heartbeat.ts`), because the event loop here may be busy for longer than a lease.
 */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { Claim, NodeStore } from '../store/node-store.ts'
import type { Store } from '../store/store.ts'

/** How often in the time of a lease node and database compare what the node holds. */
const COMPARISONS = 3
/** How often in the time of a lease this node looks for dead nodes. */
const LOOKS = 9
/**
 * Without a write for this part of a lease, the database counts as having been out of reach. Leases may have ended meanwhile: a node that
 * lives has renewed its lease at most 4/9 of it ago when an outage begins (`app/lease-renewal.ts`).
 */
const OUTAGE = 1 / 2
/** A node that has been absent for so many leases is taken for dead for good: jobs may fail for its crash. */
const ABSENT_LEASES = 10

/** The part of the worker that holds jobs. */
export interface JobHolder {
  /** What the store has as held by this node. */
  claims(): readonly Claim[]
  holds(claim: Claim): boolean
  /** Ends the execution of a job that this node no longer holds. */
  lose(claim: Claim): unknown
  /** Jobs may have been queued. */
  wake(): void
}

/** What renews the lease. */
export interface Heartbeat {
  /** Ends the renewals. The lease stays until it expires. */
  stop(): Promise<void>
}

export interface NodeLeaseOptions {
  readonly store: Pick<NodeStore, 'shared' | 'claimsOf' | 'leave' | 'revertCrashes' | 'confirmCrashes'> &
    Pick<Store, 'rescue' | 'release'>
  readonly worker: JobHolder
  readonly node: string
  readonly clock: Clock
  readonly leaseMs: number
  /** Takes the lease and renews it from then on. Rejects if it cannot be taken. Not called if no other node shares the database. */
  readonly startHeartbeat: (onExpired: () => void) => Promise<Heartbeat>
  readonly events: NodeLeaseEvents
}

export interface NodeLeaseEvents {
  /** So many jobs of dead nodes are queued again. */
  rescued(jobs: number): void
  /** So many crashes were reverted, because their nodes were only paused. */
  reverted(crashes: number): void
  /** The lease had ended, and other nodes may have rescued its jobs; so many executions were ended here. */
  lost(jobs: number): void
  /** So many jobs were held here though not by the database's account; most have just been settled. */
  gone(jobs: number): void
  error(message: string, error: unknown): void
}

export class NodeLease {
  readonly #options: NodeLeaseOptions
  readonly #loop: PollingLoop
  #heartbeat: Heartbeat | null = null
  /** Whether the lease had expired at a renewal since the last comparison. */
  #expired = false
  #comparedMs = Number.NEGATIVE_INFINITY
  /** When the last write that reached the database was sent. */
  #wroteMs = Number.NEGATIVE_INFINITY
  /** Since when writes have reached the database without a gap; every living node could renew since then, too. */
  #inTouchSinceMs = Number.POSITIVE_INFINITY
  /** What the database had as held by this node at the last comparison, though the worker did not hold it. */
  #strays: readonly Claim[] = []

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

  /** Takes the lease; on a database that no other node shares, rescues all jobs at once. Rejects if it cannot. */
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
      // The start has failed, and its thread would keep the process and the lease alive.
      await this.#heartbeat?.stop()
      throw error
    }
    this.#loop.start()
  }

  /** Ends the lease, unless the worker still holds jobs, which would run twice. The worker has been drained before. */
  async stop(): Promise<void> {
    await this.#loop.stop()
    await this.#heartbeat?.stop()
    const { store, worker, node, events } = this.#options
    if (worker.claims().length > 0) return
    try {
      // A node that was paused and stops now has no lease to show to the others: it reverts its crashes itself.
      await this.#revertCrashes()
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
    // After an outage all leases have ended: no node counts as dead before it has had the time to renew.
    if (clock.steadyMs() - this.#inTouchSinceMs < leaseMs) return
    await this.#rescue()
    await store.confirmCrashes(ABSENT_LEASES * leaseMs)
  }

  async #compare(): Promise<void> {
    const { store, worker, node, clock, events } = this.#options
    const expired = this.#expired
    const claims = worker.claims()
    const askedMs = clock.steadyMs()
    const held = await store.claimsOf(node)
    const lost = this.#endLost(claims, held)
    if (expired) {
      // Strays are not looked for here, because the comparison before may have been a moment ago.
      this.#expired = false
      events.lost(lost)
      return
    }
    this.#comparedMs = askedMs
    if (lost > 0) events.gone(lost)
    await this.#releaseStrays(held)
  }

  /** Ends what the worker held before the database was asked and the database does not have as this node's. */
  #endLost(claims: readonly Claim[], held: readonly Claim[]): number {
    const { worker } = this.#options
    const ours = new Set(held.map(keyOf))
    const lost = claims.filter((claim) => !ours.has(keyOf(claim)) && worker.holds(claim))
    for (const claim of lost) worker.lose(claim)
    return lost.length
  }

  /**
   * Releases what the database has as this node's twice in a row though the worker does not hold it: the answer to its claim
   * or release was lost. Once may be a job on its way here.
   */
  async #releaseStrays(held: readonly Claim[]): Promise<void> {
    const { store, worker, node } = this.#options
    const before = new Set(this.#strays.map(keyOf))
    this.#strays = held.filter((claim) => !worker.holds(claim))
    const twice = this.#strays.filter((claim) => before.has(keyOf(claim)))
    if (twice.length === 0) return
    await store.release(node, twice)
    worker.wake()
  }

  async #revertCrashes(): Promise<void> {
    const { store, clock, leaseMs, events } = this.#options
    const askedMs = clock.steadyMs()
    const reverted = await store.revertCrashes()
    // It may have reached the database at any moment until now.
    const answeredMs = clock.steadyMs()
    if (answeredMs - this.#wroteMs > OUTAGE * leaseMs) this.#inTouchSinceMs = answeredMs
    this.#wroteMs = askedMs
    if (reverted > 0) events.reverted(reverted)
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
