/**
 * The capacity of a worker: slots, and bytes of memory.
 *
 * - An account may hold all slots except a reserve, which is only for accounts that hold none: however many slow jobs an
 *   account has, a slot is free for the first job of another.
 * - The bytes are a share of the byte budget, of which each account has a part (`sharing/byte-budget.ts`). Beyond the share, an
 *   eighth of it is a reserve for accounts that run no large job.
 */
import type { Job } from '../job/job.ts'
import { type ByteDecision, type ByteShare, bytesOfJob, SMALL_BYTES } from '../sharing/byte-budget.ts'
import { Counts, type ReadonlyCounts } from '../sharing/counts.ts'
import { type FairSlotsOptions, freeSharedSlots, mayAcquire } from '../sharing/fair-slots.ts'

/** The fraction of the slots that is reserved, at least one slot. */
const SLOT_RESERVE = 1 / 16
/** The fraction of the share that is reserved. */
const BYTE_RESERVE = 1 / 8
/** With fewer slots there is no reserve, because it would leave too little for a single account. */
const LEAST_SLOTS_WITH_RESERVE = 4
/** Stands for the unknown accounts of the jobs that a claim in progress may return. No account has this name. */
const CLAIM_IN_PROGRESS = ''
/** Holds no bytes. */
const NOBODY = ''

export function reserveOf(slots: number): number {
  return slots < LEAST_SLOTS_WITH_RESERVE ? 0 : Math.max(1, Math.floor(slots * SLOT_RESERVE))
}

/** `reserve`: granted from the reserve of bytes. The others are those of `ByteShare`. */
export type CapacityDecision = ByteDecision | 'reserve'

export class Capacity {
  readonly #slots: FairSlotsOptions
  readonly #bytes: ByteShare
  /** Slots by account. */
  readonly #held = new Counts<string>()
  /** Bytes of jobs that are not small, by account. */
  readonly #large = new Counts<string>()
  /** Bytes of the reserve, by job. */
  readonly #reserve = new Counts<string>()
  /** Slots by account, including that of a claim in progress. */
  readonly held: ReadonlyCounts<string> = this.#held
  /** Bytes of jobs that are not small, by account. */
  readonly large: ReadonlyCounts<string> = this.#large

  constructor(slots: number, bytes: ByteShare) {
    this.#slots = { limit: slots, reserve: reserveOf(slots) }
    this.#bytes = bytes
  }

  /** Half of the free bytes: the amount that an account without any may use. */
  get partOfNewcomer(): number {
    return this.#bytes.partOf(NOBODY)
  }

  /** Bytes of the reserve that are free. */
  get freeReserve(): number {
    return this.#bytes.limit * BYTE_RESERVE - this.#reserve.total
  }

  /** Free slots, with the reserve. */
  get free(): number {
    return this.#slots.limit - this.#held.total
  }

  /** Free slots that any account may have; 0 or less if there are none. */
  get freeShared(): number {
    return freeSharedSlots(this.#slots, this.#held)
  }

  /** Slots that go only to accounts that hold none. */
  get reserve(): number {
    return this.#slots.reserve
  }

  accountsWithSlots(): string[] {
    return [...this.#held.keys()].filter((account) => account !== CLAIM_IN_PROGRESS)
  }

  /** Holds the slots that a claim may fill. */
  beginClaim(slots: number): void {
    this.#held.add(CLAIM_IN_PROGRESS, slots)
  }

  endClaim(slots: number): void {
    this.#held.add(CLAIM_IN_PROGRESS, -slots)
  }

  /** Takes the capacity that the job needs, if its account may have it now. It must be released exactly once. */
  tryTake(job: Job): boolean {
    const { account } = job
    if (!mayAcquire(this.#slots, this.#held, account)) return false
    const bytes = bytesOfJob(job)
    if (this.#bytes.tryReserve(account, bytes) !== 'granted') return false
    this.#held.add(account, 1)
    if (bytes > SMALL_BYTES) this.#large.add(account, bytes)
    return true
  }

  /**
   * Whether the account may run a large job of this many bytes now. @param onlyReserve whether the free bytes of the share
   * are kept for another job
   */
  decideLarge(account: string, bytes: number, onlyReserve: boolean): CapacityDecision {
    const decision = onlyReserve ? 'full' : this.#decideShare(account, bytes)
    if (decision === 'granted') return 'granted'
    return this.#large.of(account) === 0 && bytes <= this.freeReserve ? 'reserve' : decision
  }

  #decideShare(account: string, bytes: number): ByteDecision {
    // Bytes granted from the reserve must not keep a job waiting that is larger than the share.
    return this.#large.total <= this.#reserve.total ? 'granted' : this.#bytes.decide(account, bytes)
  }

  /** Takes the capacity that a claimed job needs. @param fromReserve whether a large job counts for the reserve of bytes */
  take(job: Job, fromReserve = false): void {
    const { id, account } = job
    const bytes = bytesOfJob(job)
    this.#held.add(account, 1)
    this.#bytes.hold(account, bytes)
    if (bytes <= SMALL_BYTES) return
    this.#large.add(account, bytes)
    if (fromReserve) this.#reserve.add(id, bytes)
  }

  release(job: Job): void {
    const { id, account } = job
    const bytes = bytesOfJob(job)
    this.#held.add(account, -1)
    this.#bytes.release(account, bytes)
    if (bytes <= SMALL_BYTES) return
    this.#large.add(account, -bytes)
    this.#reserve.add(id, -this.#reserve.of(id))
  }
}
