/**
 * Renews this node's lease, rescues the jobs of nodes whose lease has ended, and settles what node and database disagree
 * about: after a pause, a broken connection or a claim whose answer was lost, each may think that the other holds a job.
 */
import type { Clock } from '../clock.ts'
import { PollingLoop } from '../polling-loop.ts'
import type { Claim, NodeStore } from '../store/node-store.ts'
import type { Store } from '../store/store.ts'

/** Renewals in the time of a lease. */
const RENEWALS = 3
/** Heartbeats in the time of a lease: each looks for dead nodes, and every third renews. */
const HEARTBEATS = 9

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

export interface NodeLeaseOptions {
  readonly store: Pick<NodeStore, 'shared' | 'renew' | 'leave'> & Pick<Store, 'rescue' | 'release'>
  readonly worker: JobHolder
  readonly node: string
  readonly clock: Clock
  readonly leaseMs: number
  readonly events: NodeLeaseEvents
}

export interface NodeLeaseEvents {
  /** So many jobs of dead nodes are queued again. */
  rescued(jobs: number): void
  /** The lease had ended, and other nodes may have rescued its jobs; so many executions were ended here. */
  lost(jobs: number): void
  /** So many jobs were held here though not by the database's account; most have just been settled. */
  gone(jobs: number): void
  error(message: string, error: unknown): void
}

export class NodeLease {
  readonly #options: NodeLeaseOptions
  readonly #heartbeat: PollingLoop
  #renewedMs = Number.NEGATIVE_INFINITY
  /** Since when every renewal has reached the database; every living node could renew since then, too. */
  #inTouchSinceMs = Number.POSITIVE_INFINITY
  /** What the database had as held by this node at the last renewal, though the worker did not hold it. */
  #strays: readonly Claim[] = []

  constructor(options: NodeLeaseOptions) {
    const { clock, leaseMs, events } = options
    this.#options = options
    this.#heartbeat = new PollingLoop({
      clock,
      pauseMs: leaseMs / HEARTBEATS,
      task: () => this.#beat(),
      onError: (error) => events.error('renewing the lease failed; it is retried', error),
    })
  }

  /** Takes the lease; on a database that no other node shares, rescues all jobs at once. Rejects if it cannot. */
  async start(): Promise<void> {
    const { store } = this.#options
    await this.#renew()
    if (!store.shared) await this.#rescue()
    this.#heartbeat.start()
  }

  /** Ends the lease, unless the worker still holds jobs, which would run twice. The worker has been drained before. */
  async stop(): Promise<void> {
    await this.#heartbeat.stop()
    const { store, worker, node, events } = this.#options
    if (worker.claims().length > 0) return
    await store
      .leave(node)
      .catch((error) => events.error('ending the lease failed; it expires by itself', error))
  }

  async #beat(): Promise<void> {
    const { clock, leaseMs, store } = this.#options
    if (clock.steadyMs() - this.#renewedMs >= leaseMs / RENEWALS) await this.#renew()
    // After an outage all leases have ended: no node counts as dead before it has had the time to renew.
    const inTouchMs = clock.steadyMs() - this.#inTouchSinceMs
    if (store.shared && inTouchMs >= leaseMs) await this.#rescue()
  }

  async #renew(): Promise<void> {
    const { store, worker, node, clock, leaseMs } = this.#options
    const claims = worker.claims()
    const askedMs = clock.steadyMs()
    const { kept, held } = await store.renew(node, leaseMs)
    // Counted from before the renewal was sent: the lease began no earlier.
    if (askedMs - this.#renewedMs > leaseMs) this.#inTouchSinceMs = askedMs
    const first = this.#renewedMs === Number.NEGATIVE_INFINITY
    this.#renewedMs = askedMs
    const lost = this.#endLost(claims, held)
    if (!(kept || first)) this.#options.events.lost(lost)
    else if (lost > 0) this.#options.events.gone(lost)
    await this.#releaseStrays(held)
  }

  /** Ends what the worker held before the renewal was sent and the database does not have as this node's. */
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
