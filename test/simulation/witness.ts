/**
 * Watches what the database answers to nodes, for the rules about who may write: P3 (a stale holder changes nothing), P2 (a job
 * ends once), and no job is assigned to two nodes. It keeps an account of its own of who holds a job, and believes no row.
 */
import type { Claim } from '../../src/store/node-store.ts'
import type { Acceptance, Accepted, Claimed, Settlement } from '../../src/store/store.ts'
import type { Ledger } from './ledger.ts'
import type { StoreCall } from './memory-store/memory-store.ts'
import type { World } from './world.ts'

interface Holder {
  readonly node: string
  readonly attempt: number
}

export class Witness {
  readonly #world: World
  readonly #ledger: Ledger
  /** By job. */
  readonly #holders = new Map<string, Holder>()
  readonly #endedMs = new Map<string, number>()

  constructor(world: World, ledger: Ledger) {
    this.#world = world
    this.#ledger = ledger
  }

  /** When the job ended, by the world's time; null if it has not, or if an operator cancelled it with others. */
  endedMs(jobId: string): number | null {
    return this.#endedMs.get(jobId) ?? null
  }

  /** The database carried out the call of a node with this result. */
  saw(node: string, { name, args }: StoreCall, result: unknown): void {
    switch (name) {
      case 'accept':
        if ((result as Accepted).kind === 'accepted') this.#accepted(args[0] as Acceptance)
        break
      case 'claim':
        for (const { id, attempt } of (result as Claimed).jobs) this.#assigned(id, { node, attempt })
        break
      case 'release':
      case 'releaseWaiting':
        for (const claim of args[1] as readonly Claim[]) this.#released(node, claim)
        break
      case 'acceptEnded':
        this.#ended((args[1] as Settlement).jobId)
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

  /** The job was taken from a node that seems to be dead. */
  rescued(jobId: string): void {
    this.#holders.delete(jobId)
  }

  #accepted({ node, jobs }: Acceptance): void {
    for (const { job, handedOff } of jobs) if (handedOff) this.#assigned(job.id, { node, attempt: 1 })
  }

  #assigned(jobId: string, holder: Holder): void {
    const before = this.#holders.get(jobId)
    if (before !== undefined)
      this.#ledger.violate(
        'P3 a job has one holder',
        `${jobId} of ${before.node} is assigned to ${holder.node}`,
      )
    this.#holders.set(jobId, holder)
  }

  #released(node: string, { jobId, attempt }: Claim): void {
    const holder = this.#holders.get(jobId)
    if (holder?.node === node && holder.attempt === attempt) this.#holders.delete(jobId)
  }

  #settled({ jobId, node, attempt }: Settlement): void {
    const holder = this.#holders.get(jobId)
    if (holder?.node !== node || holder.attempt !== attempt)
      this.#ledger.violate('P3 a stale holder cannot write', `${node} settled attempt ${attempt} of ${jobId}`)
    this.#ended(jobId)
  }

  #ended(jobId: string): void {
    if (this.#endedMs.has(jobId))
      this.#ledger.violate('P2 one final state, never changed', `${jobId} ended twice`)
    this.#endedMs.set(jobId, this.#world.nowMs)
    this.#holders.delete(jobId)
  }
}
