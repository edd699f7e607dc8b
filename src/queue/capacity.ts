/**
 * What a worker has room for: slots, and bytes of memory.
 *
 * - An account may hold all slots but a reserve, which goes only to accounts that hold none: however many slow jobs an account
 *   has, a slot is free for the first job of another.
 * - The bytes are a share of the byte budget, of which each account has a part (`sharing/byte-budget.ts`).
 */
import type { Job } from '../job/job.ts'
import { type ByteShare, SMALL_BYTES } from '../sharing/byte-budget.ts'
import { Counts, type ReadonlyCounts } from '../sharing/counts.ts'
import { type FairSlotsOptions, freeSharedSlots, mayAcquire } from '../sharing/fair-slots.ts'
import { jobBytes, jobTextLength } from '../sharing/job-bytes.ts'

/** The reserve is this part of the slots, at least one. */
export const RESERVE = 1 / 16
/** With fewer slots there is no reserve: it would leave too little for the account that is there. */
const LEAST_SLOTS_WITH_RESERVE = 4
/** Stands for the accounts of the jobs that a claim in progress may return. No account has this name. */
const CLAIM_IN_PROGRESS = ''

export function reserveOf(slots: number): number {
  return slots < LEAST_SLOTS_WITH_RESERVE ? 0 : Math.max(1, Math.floor(slots * RESERVE))
}

export class Capacity {
  readonly #slots: FairSlotsOptions
  readonly #bytes: ByteShare
  /** Slots by account. */
  readonly #held = new Counts<string>()
  /** Bytes of jobs that are not small, by account. */
  readonly #large = new Counts<string>()

  constructor(slots: number, bytes: ByteShare) {
    this.#slots = { limit: slots, reserve: reserveOf(slots) }
    this.#bytes = bytes
  }

  /** Slots by account; the one of a claim in progress is among them. */
  get held(): ReadonlyCounts<string> {
    return this.#held
  }

  /** Bytes of jobs that are not small, by account. */
  get large(): ReadonlyCounts<string> {
    return this.#large
  }

  get bytes(): ByteShare {
    return this.#bytes
  }

  /** Free slots, with the reserve. */
  get free(): number {
    return this.#slots.limit - this.#held.total
  }

  /** Free slots that any account may have; 0 or less if there are none. */
  get freeShared(): number {
    return freeSharedSlots(this.#slots, this.#held)
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

  /** Takes what the job needs if its account may have it now. What is taken is released exactly once. */
  tryTake(job: Job): boolean {
    const { account } = job
    if (!mayAcquire(this.#slots, this.#held, account)) return false
    if (this.#bytes.decide(account, bytesOf(job)) !== 'granted') return false
    this.take(job)
    return true
  }

  /** Takes what the job needs, because it was claimed. */
  take(job: Job): void {
    const { account } = job
    const bytes = bytesOf(job)
    this.#held.add(account, 1)
    this.#bytes.hold(account, bytes)
    if (bytes > SMALL_BYTES) this.#large.add(account, bytes)
  }

  release(job: Job): void {
    const { account } = job
    const bytes = bytesOf(job)
    this.#held.add(account, -1)
    this.#bytes.release(account, bytes)
    if (bytes > SMALL_BYTES) this.#large.add(account, -bytes)
  }
}

/** The estimate of what the job takes in memory while it runs. */
export function bytesOf(job: Job): number {
  return jobBytes(jobTextLength(job))
}
