/**
 * Decides what a worker claims next. There are two kinds of claims:
 *
 * - in fair order, from the head of the queue, while slots are free that any account may have;
 * - a search, for the first job of each account: if only the reserve is left, for accounts without a slot; if the job at the
 *   head of the queue waits for bytes, for accounts that do not have to wait.
 *
 * A job waits for bytes when its account is over its part, or when others hold the room that it needs. In the second case,
 * freed bytes are kept for it: meanwhile, other large jobs can start only from the reserve of bytes. Small jobs never wait
 * for bytes.
 */
import type { Job } from '../job/job.ts'
import { bytesOfJob, jobBytes, jobTextWithin, SMALL_BYTES } from '../sharing/byte-budget.ts'
import type { ClaimBounds, Claimed } from '../store/store.ts'
import type { Capacity, CapacityDecision } from './capacity.ts'

/** Maximum jobs per claim, so that its transaction stays short. */
const MAX_CLAIM = 256
/** If the jobs of this many accounts wait for bytes, no further accounts are searched until a job finishes. */
const MAX_BLOCKED = 64
const SMALL_TEXT = jobTextWithin(SMALL_BYTES)

export interface PlannedClaim {
  readonly limit: number
  readonly bounds: Pick<ClaimBounds, 'bytes' | 'exceptOf' | 'ofAccount' | 'ofRoute'>
  /** Whether its large jobs count for the reserve of bytes. */
  readonly fromReserve: boolean
}

interface LargeJob {
  readonly account: string
  /** Of its texts. */
  readonly bytes: number
  /** Whether it is the next in fair order, or its account's first. */
  readonly isHead: boolean
}

/**
 * An account whose queued jobs wait although those of others would not: it holds all slots except the reserve, or its part of
 * the memory.
 */
export interface HeldBack {
  readonly account: string
  readonly reason: 'slots' | 'memory'
}

/** What a search looks for next. It starts with small jobs if the head of the queue is blocked. */
type Search = 'small jobs' | 'all jobs' | 'nothing'

export class ClaimPlan {
  readonly #capacity: Capacity
  /** Whether the queue may contain jobs. While it does, new jobs are queued instead of overtaking them. Changed only here. */
  mayBeQueued = true
  /** Counts additions to the queue, so that a claim that started earlier does not prove that it is empty. */
  #wakeUps = 0
  /** Whether the job at the head of the queue waits for bytes. */
  #isHeadBlocked = false
  #search: Search = 'all jobs'
  /** Accounts whose next job waits for bytes. */
  readonly #blocked = new Set<string>()
  /** A job that fits although it was too large for a claim of several: the next claim is for this job alone. */
  #fitting: LargeJob | null = null
  /** The job for which room is kept. */
  #roomFor: LargeJob | null = null

  constructor(capacity: Capacity) {
    this.#capacity = capacity
  }

  /** Changes whenever jobs may have been queued. */
  get wakeUps(): number {
    return this.#wakeUps
  }

  /** Jobs may have been queued. @param account whose they are; null if that is not known */
  queued(account: string | null): void {
    this.#wakeUps += 1
    this.mayBeQueued = true
    const mayBeFound = account === null || this.#isHeadBlocked || this.#capacity.held.of(account) === 0
    if (mayBeFound) this.#searchAgain()
  }

  /** The capacity of a job is released: it finished, or was not accepted. */
  ended(job: Job): void {
    if (this.#blocked.size > 0 && bytesOfJob(job) > SMALL_BYTES) this.#bytesFreed()
    const hasSearched = this.#search !== 'all jobs' || this.#isHeadBlocked
    if (hasSearched && this.#capacity.held.of(job.account) === 0) this.#searchAgain()
  }

  /** The next claim; null if nothing can be claimed now. */
  next(): PlannedClaim | null {
    if (!this.mayBeQueued) return null
    const { free, freeShared } = this.#capacity
    const alone = this.#fitting === null || free <= 0 ? null : this.#claimAlone(this.#fitting)
    if (alone !== null) return alone
    if (freeShared > 0 && !this.#isHeadBlocked) return this.#nextInFairOrder(freeShared)
    if (free <= 0 || this.#search === 'nothing') return null
    return this.#nextOfSearch(freeShared > 0 ? freeShared : free, freeShared <= 0)
  }

  /** @param wakeUps the value of `wakeUps` when the claim started */
  learn({ limit, bounds }: PlannedClaim, { jobs, tooLarge }: Claimed, wakeUps: number): void {
    const { exceptOf, ofAccount } = bounds
    const isSearch = exceptOf !== undefined
    this.#fitting = null
    if (isSearch && this.#search === 'small jobs') {
      if (jobs.length === 0 && wakeUps === this.#wakeUps) this.#search = 'all jobs'
    } else if (tooLarge !== null) {
      this.#foundTooLarge({ ...tooLarge, isHead: !isSearch && ofAccount === undefined })
    } else if (wakeUps === this.#wakeUps) {
      if (isSearch && jobs.length === 0) this.#search = 'nothing'
      // An account's next job may be a small one.
      else if (isSearch || ofAccount !== undefined) this.#searchAgain()
      else if (jobs.length < limit) this.mayBeQueued = false
    }
  }

  /** Several accounts share the slots if each holds at least an equal part of them. */
  heldBack(): readonly HeldBack[] {
    const { freeShared, held, reserve } = this.#capacity
    const waiting = [...this.#blocked].map((account) => ({ account, reason: 'memory' }) as const)
    if (!this.mayBeQueued || freeShared > 0 || reserve === 0) return waiting
    const holders = this.#capacity.accountsWithSlots()
    const most = holders.filter((account) => held.of(account) * holders.length >= held.total)
    return [...waiting, ...most.map((account) => ({ account, reason: 'slots' }) as const)]
  }

  #claimAlone(job: LargeJob): PlannedClaim | null {
    const { account, bytes, isHead } = job
    const { freeShared, held } = this.#capacity
    const decision = this.#decide(job)
    const hasSlot = freeShared > 0 || (!isHead && held.of(account) === 0)
    if (!hasSlot || !isGranted(decision)) return null
    const bounds = { bytes: upTo(bytes), ...(!isHead && { ofAccount: account }) }
    return { limit: 1, bounds, fromReserve: decision === 'reserve' }
  }

  #nextInFairOrder(limit: number): PlannedClaim {
    const isRoomKept = this.#roomFor !== null
    const max = isRoomKept || this.#accountsWithoutRoom().length > 0 ? 0 : this.#roomForMany()
    return { limit: Math.min(limit, MAX_CLAIM), bounds: { bytes: upTo(max) }, fromReserve: false }
  }

  #nextOfSearch(limit: number, onlyReserve: boolean): PlannedClaim {
    const except = new Set(this.#blocked)
    const add = (accounts: Iterable<string>) => {
      for (const account of accounts) except.add(account)
    }
    if (onlyReserve) add(this.#capacity.accountsWithSlots())
    const isRoomKept = this.#roomFor !== null
    let max = 0
    if (this.#search === 'all jobs') {
      add(isRoomKept ? this.#capacity.large.keys() : this.#accountsWithoutRoom())
      max = isRoomKept ? jobTextWithin(this.#capacity.freeReserve) : this.#roomForMany()
    }
    const bounds = { exceptOf: [...except], bytes: upTo(max) }
    return { limit: Math.min(limit, MAX_CLAIM), bounds, fromReserve: isRoomKept }
  }

  /**
   * The total text that several jobs may have so that each is within the part of its account, whatever their accounts are;
   * except `#accountsWithoutRoom`.
   */
  #roomForMany(): number {
    return jobTextWithin(this.#capacity.partOfNewcomer / 2)
  }

  /** Accounts that hold so much of their part that their next job must be decided separately. */
  #accountsWithoutRoom(): string[] {
    const { large, partOfNewcomer: most } = this.#capacity
    if (large.total === 0) return []
    return [...large.keys()].filter((account) => large.of(account) >= most)
  }

  #foundTooLarge(job: LargeJob): void {
    const decision = this.#decide(job)
    if (isGranted(decision)) {
      this.#fitting = job
      return
    }
    this.#blocked.add(job.account)
    if (job.isHead) {
      this.#isHeadBlocked = true
      this.#searchAgain()
    }
    if (decision === 'full') this.#roomFor ??= job
    if (this.#blocked.size > MAX_BLOCKED) this.#search = 'nothing'
  }

  #decide({ account, bytes }: LargeJob): CapacityDecision {
    return this.#capacity.decideLarge(account, jobBytes(bytes), this.#roomFor !== null)
  }

  #bytesFreed(): void {
    const waiting = this.#roomFor
    this.#roomFor = null
    if (waiting !== null && !isGranted(this.#decide(waiting))) {
      this.#roomFor = waiting
    } else {
      this.#fitting = waiting
      this.#isHeadBlocked = false
      this.#blocked.clear()
    }
    this.#searchAgain()
  }

  #searchAgain(): void {
    this.#search = this.#isHeadBlocked ? 'small jobs' : 'all jobs'
  }
}

function isGranted(decision: CapacityDecision): boolean {
  return decision === 'granted' || decision === 'reserve'
}

function upTo(max: number): NonNullable<ClaimBounds['bytes']> {
  return { small: SMALL_TEXT, max }
}
