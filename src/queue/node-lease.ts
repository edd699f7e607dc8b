/**
 * Keeps this node's lease, takes over from nodes whose lease has ended, and settles what node and database disagree about:
 * after a pause, a broken connection or a claim whose answer was lost, each may think that the other has a job.
 */
import type { Clock } from '../clock.ts'
import type { Claim, NodeStore } from '../store/node-store.ts'
import type { Store } from '../store/store.ts'

/** Renewals in the time of a lease. */
const RENEWALS = 3
/** Looks for dead nodes in the time of a lease. */
const LOOKS = 9

/** The part of the worker that has jobs in hand. */
export interface Holder {
  /** What is held here and is known to be stored so. */
  stored(): readonly Claim[]
  has(claim: Claim): boolean
  /** Ends the run of a job that is not this node's any more. */
  lose(claim: Claim): void
  /** Jobs may have joined the line. */
  wake(): void
}

export interface NodeLeaseOptions {
  readonly store: Omit<NodeStore, 'takeCancelled'> & Pick<Store, 'rescue' | 'release'>
  readonly holder: Holder
  readonly node: string
  readonly clock: Clock
  readonly leaseMs: number
  readonly events: NodeLeaseEvents
}

export interface NodeLeaseEvents {
  /** So many jobs of dead nodes run again. */
  reclaimed(jobs: number): void
  /** The lease had ended and others may have taken its jobs; so many runs of them were ended here. */
  lost(jobs: number): void
  /** So many jobs were in hand though the database has them no more as ours; most have just been settled. */
  gone(jobs: number): void
  trouble(message: string, error: unknown): void
}

export class NodeLease {
  readonly #options: NodeLeaseOptions
  #renewedMs = Number.NEGATIVE_INFINITY
  /** Since when the database has been there whenever we renewed; every living node could renew since then too. */
  #inTouchSinceMs = Number.POSITIVE_INFINITY
  /** What the database had as ours at the last renewal though it was not in hand. */
  #strays: readonly Claim[] = []
  #beating: Promise<void> | null = null
  #stopped = false
  #cancel: () => void = () => {}

  constructor(options: NodeLeaseOptions) {
    this.#options = options
  }

  /** Takes the lease; of a database that no other node shares, takes back all jobs at once. Rejects if it cannot. */
  async begin(): Promise<void> {
    const { store } = this.#options
    await this.#renew()
    if (!store.shared) await this.#reclaim()
    this.#next()
  }

  /** Ends the lease, if nothing is in hand that would be run twice. The worker has been drained before. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel()
    await this.#beating
    const { store, holder, node, events } = this.#options
    if (holder.stored().length > 0) return
    await store
      .leave(node)
      .catch((error) => events.trouble('ending the lease failed; it runs out by itself', error))
  }

  #next(): void {
    const { clock, leaseMs } = this.#options
    if (this.#stopped) return
    this.#cancel = clock.after(leaseMs / LOOKS, () => {
      this.#beating = this.#beat().finally(() => this.#next())
    })
  }

  /** Never rejects. */
  async #beat(): Promise<void> {
    const { clock, leaseMs, store, events } = this.#options
    try {
      if (clock.steadyMs() - this.#renewedMs >= leaseMs / RENEWALS) await this.#renew()
      // After an outage the leases of all have ended: nobody is called dead who has not had the time to renew.
      const inTouchMs = clock.steadyMs() - this.#inTouchSinceMs
      if (store.shared && inTouchMs >= leaseMs) await this.#reclaim()
    } catch (error) {
      events.trouble('renewing the lease failed; it is tried again', error)
    }
  }

  async #renew(): Promise<void> {
    const { store, holder, node, clock, leaseMs } = this.#options
    const inHand = holder.stored()
    const askedMs = clock.steadyMs()
    const { kept, held } = await store.renew(node, leaseMs)
    // Counted from before the question: the lease began no earlier.
    if (askedMs - this.#renewedMs > leaseMs) this.#inTouchSinceMs = askedMs
    const first = this.#renewedMs === Number.NEGATIVE_INFINITY
    this.#renewedMs = askedMs
    const lost = this.#endLost(inHand, held)
    if (!(kept || first)) this.#options.events.lost(lost)
    else if (lost > 0) this.#options.events.gone(lost)
    await this.#returnStrays(held)
  }

  /** What was in hand and stored before the question, and is not ours by the answer. */
  #endLost(inHand: readonly Claim[], held: readonly Claim[]): number {
    const { holder } = this.#options
    const ours = new Set(held.map(nameOf))
    const lost = inHand.filter((claim) => !ours.has(nameOf(claim)) && holder.has(claim))
    for (const claim of lost) holder.lose(claim)
    return lost.length
  }

  /**
   * What is ours by the database and not in hand, twice in a row: its claim or its giving back was carried out though the
   * answer was lost. Once may be a job on its way here.
   */
  async #returnStrays(held: readonly Claim[]): Promise<void> {
    const { store, holder, node } = this.#options
    const before = new Set(this.#strays.map(nameOf))
    this.#strays = held.filter((claim) => !holder.has(claim))
    const stray = this.#strays.filter((claim) => before.has(nameOf(claim)))
    if (stray.length === 0) return
    await store.release(node, stray)
    holder.wake()
  }

  async #reclaim(): Promise<void> {
    const { store, holder, node, clock, events } = this.#options
    const reclaimed = await store.rescue(node, clock.nowMs())
    if (reclaimed === 0) return
    events.reclaimed(reclaimed)
    holder.wake()
  }
}

function nameOf({ jobId, attempt }: Claim): string {
  return `${jobId} ${attempt}`
}
