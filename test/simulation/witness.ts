/**
 * Watches the database's answers to nodes, for the rules about who may write: P3 (a stale holder changes nothing), P2 (a job
 * ends once), and that no job is assigned to two nodes; and that jobs are answered from the cache. It keeps its own record of
 * who holds each job, independent of the rows.
 */
import type { Claim } from '../../src/store/node-store.ts'
import type { Acceptance, Accepted, Claimed, Settlement } from '../../src/store/store.ts'
import type { Ledger } from './ledger.ts'
import type { StoreCall } from './memory-store/memory-store.ts'
import { WORLD_START_MS, type World } from './world.ts'

interface Holder {
  readonly node: string
  readonly attempt: number
  /** When the job was assigned. */
  readonly sinceMs: number
}

interface CachedResponse {
  readonly jobId: string
  readonly storedMs: number
  /** By the clock of its node. */
  readonly untilMs: number
}

export class Witness {
  readonly #world: World
  readonly #ledger: Ledger
  /** By job. */
  readonly #holders = new Map<string, Holder>()
  /** By fingerprint. */
  readonly #cached = new Map<string, CachedResponse>()

  constructor(world: World, ledger: Ledger) {
    this.#world = world
    this.#ledger = ledger
  }

  /** The database ran a call of a node with this result. */
  saw(node: string, { name, args }: StoreCall, result: unknown): void {
    switch (name) {
      case 'accept':
        this.#accepted(args[0] as Acceptance, result as Accepted)
        break
      case 'claim':
        for (const { id, attempt } of (result as Claimed).jobs) this.#assigned(id, node, attempt)
        break
      case 'release':
      case 'releaseWaiting':
        for (const claim of args[1] as readonly Claim[]) this.#released(node, claim)
        break
      case 'settle':
        if (result === 'settled') this.#settled(args[0] as Settlement)
        break
      case 'cancelJob':
        if (result === 'cancelled') this.#ended(args[0] as string)
        break
      case 'cancelOwnJob':
        if (result === 'cancelled') this.#ended((args[0] as { readonly jobId: string }).jobId)
        break
    }
  }

  /** The job was taken from a node that seems to have crashed. */
  rescued(jobId: string): void {
    this.#holders.delete(jobId)
  }

  #accepted({ node, jobs, nowMs }: Acceptance, accepted: Accepted): void {
    if (accepted.kind !== 'accepted') return
    const answered = new Set(accepted.answered?.map(({ jobId }) => jobId))
    for (const { job, handedOff } of jobs) {
      if (answered.has(job.id)) this.#ended(job.id, nowMs)
      else if (handedOff) this.#assigned(job.id, node, 1)
    }
  }

  #assigned(jobId: string, node: string, attempt: number): void {
    const before = this.#holders.get(jobId)
    if (before !== undefined)
      this.#ledger.violate('a job has one holder', `${jobId} of ${before.node} is assigned to ${node}`)
    this.#holders.set(jobId, { node, attempt, sinceMs: this.#world.nowMs })
  }

  #released(node: string, { jobId, attempt }: Claim): void {
    const holder = this.#holders.get(jobId)
    if (holder?.node === node && holder.attempt === attempt) this.#holders.delete(jobId)
  }

  #settled(settlement: Settlement): void {
    const { jobId, node, attempt, nowMs, cache } = settlement
    const holder = this.#holders.get(jobId)
    if (holder?.node !== node || holder.attempt !== attempt)
      this.#ledger.violate('a stale holder cannot write', `${node} settled attempt ${attempt} of ${jobId}`)
    else if (attempt === 1) this.#checkCache(settlement, holder)
    this.#ended(jobId, nowMs)
    if (cache) {
      const { fingerprint, untilMs } = cache
      this.#cached.set(fingerprint, { jobId, storedMs: this.#world.nowMs, untilMs })
    }
  }

  /** A model answered the job: no response of an identical job was in the cache when the job was assigned. */
  #checkCache({ jobId, cache, nowMs }: Settlement, { sinceMs }: Holder): void {
    const ledger = this.#ledger
    const cached = cache && this.#cached.get(cache.fingerprint)
    if (!cached || cached.storedMs >= sinceMs || cached.untilMs <= nowMs) return
    const earlier = ledger.jobs.get(cached.jobId)
    const mayBeAbsent = earlier === undefined || ledger.mayBeGone(earlier) || ledger.clockJumpsMs > 0
    // During a fault, a job is run if the response cannot be read in time.
    if (mayBeAbsent || !ledger.wasCalmSince(cached.storedMs)) return
    ledger.violate(
      'an identical job is answered from the cache',
      `${jobId} was run although ${cached.jobId} had ended`,
    )
  }

  /** @param atMs the time according to the node's clock; a retried settlement keeps its time */
  #ended(jobId: string, atMs = this.#world.nowMs + WORLD_START_MS): void {
    if (this.#ledger.endedMs.has(jobId))
      this.#ledger.violate('one final state, never changed', `${jobId} ended twice`)
    this.#ledger.endedMs.set(jobId, this.#world.nowMs)
    this.#ledger.settledAtMs.set(jobId, atMs - WORLD_START_MS)
    this.#holders.delete(jobId)
  }
}
