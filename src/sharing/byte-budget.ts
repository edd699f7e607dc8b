/**
 * Bounds the bytes that a process holds in memory for accounts. Each kind of thing has a share of the budget: bodies being
 * received (`uploads`), received requests until their response (`requests`), running `jobs`, `callbacks` being sent, and
 * `answers` being written. Bytes are an estimate of what a thing takes in memory, not the length of its text.
 *
 * - An eighth of a share is reserved for small things, so that large ones cannot use all of it.
 * - Of the rest, an account may hold half of what other accounts leave (its part), so that it cannot use all of it.
 * - If there is room, each account may hold one large thing regardless of its part.
 * - A large thing is always granted if no other large one is held, even if it is larger than the share.
 * - Freed bytes go to the waiting account that holds fewest. If its request is large, other large requests wait until it fits,
 *   because they could otherwise starve it. Within an account, first come, first served.
 */
import type { Job } from '../job/job.ts'
import type { StopListener, StopSignal } from '../job/stop.ts'
import { Counts, type ReadonlyCounts } from './counts.ts'

/** A thing of at most this many bytes is small. */
export const SMALL_BYTES = 64 * 1024

/** Each share gets this part of the budget. The parts add up to 1. */
export const SHARES = {
  uploads: 1 / 8,
  requests: 1 / 4,
  jobs: 1 / 4,
  callbacks: 1 / 8,
  answers: 1 / 4,
} as const
export type ShareName = keyof typeof SHARES
export const SHARE_NAMES = Object.keys(SHARES) as readonly ShareName[]

/** The reserve for newcomers has this fraction of the share (see `withReserve`). */
const NEWCOMER_RESERVE = 1 / 8

/** `over part`: the account exceeds its part. `full`: the account does not, but others hold the bytes that it needs. */
export type ByteDecision = 'granted' | 'over part' | 'full'

interface WaitingRequest extends StopListener {
  readonly bytes: number
  readonly signal: StopSignal
  readonly resolve: (granted: boolean) => void
}

/** One share of the budget. Only whole bytes are counted, so that sums return to exactly 0. */
export class ByteShare {
  readonly limit: number
  /** Large things may use the limit without the reserve for small things. */
  readonly #limitOfLarge: number
  readonly #held = new Counts<string>()
  /** A small thing that fits under this total is granted without a check of its account, which cannot exceed its part then. */
  readonly #openToSmall: number
  readonly #large = new Counts<string>()
  readonly #waiting = new Counts<string>()
  readonly held: ReadonlyCounts<string> = this.#held
  readonly waiting: ReadonlyCounts<string> = this.#waiting
  /** Each account's requests are in the order of their arrival. An account whose request is granted moves to the end. */
  readonly #queue = new Map<string, Set<WaitingRequest>>()
  #isRoomKept = false
  /** Counts the bytes that newcomers hold in their reserve. */
  readonly #reserved = new Counts<string>()
  readonly #reserveLimit: number

  /**
   * @param withReserve whether accounts that hold no large thing (newcomers) may hold one each beyond the limit, up to
   *   `NEWCOMER_RESERVE` of it together. Then one job that takes the whole share for a long time does not delay all others
   */
  constructor(limit: number, withReserve = false) {
    this.limit = Math.floor(limit)
    this.#reserveLimit = withReserve ? Math.floor(this.limit * NEWCOMER_RESERVE) : 0
    this.#limitOfLarge = this.limit - Math.floor(this.limit / 8)
    // If others hold at most a third of the limit of large things, an account's part is at least half of the other two thirds,
    // so a third.
    this.#openToSmall = this.#limitOfLarge / 3
  }

  /** Returns 0 if more bytes than the limit are held. */
  get free(): number {
    return Math.max(0, this.limit - this.#held.total)
  }

  /** How many more bytes small things may take, from the free bytes or from their reserve. */
  get freeForSmall(): number {
    const small = this.#held.total - this.#large.total
    return Math.max(this.free, this.limit - this.#limitOfLarge - small)
  }

  partOf(account: string): number {
    return Math.max(0, this.#limitOfLarge - this.#held.total + this.#held.of(account)) / 2
  }

  /** Returns what `tryReserve` would decide. */
  decide(account: string, bytes: number): ByteDecision {
    if (bytes <= SMALL_BYTES && this.#held.total + bytes <= this.#openToSmall) return 'granted'
    const decision = this.#decideRest(account, bytes)
    return decision === 'granted' || this.#hasReserveFor(account, bytes) ? 'granted' : decision
  }

  /** Counts the bytes if the account may hold them now. Release granted bytes exactly once. */
  tryReserve(account: string, bytes: number): ByteDecision {
    // Most requests take this fast path.
    if (bytes <= SMALL_BYTES && this.#held.total + bytes <= this.#openToSmall) {
      this.#held.add(account, bytes)
      return 'granted'
    }
    const decision = this.decide(account, bytes)
    if (decision === 'granted') this.#take(account, bytes)
    return decision
  }

  /**
   * Waits until the account may hold the bytes. Returns true when they are counted, and false if the signal stopped the wait.
   * Returns a promise only if the account must wait.
   */
  reserve(account: string, bytes: number, signal: StopSignal): boolean | Promise<boolean> {
    if (signal.reason !== null) return false
    if (!this.#queue.has(account) && this.tryReserve(account, bytes) === 'granted') return true
    return new Promise((resolve) => {
      const request: WaitingRequest = {
        bytes,
        signal,
        resolve,
        onStop: () => {
          this.#removeRequest(account, request)
          resolve(false)
          this.#grantWaiting()
        },
      }
      signal.listen(request)
      this.#addRequest(account, request)
      this.#grantWaiting()
    })
  }

  /** Counts bytes that are in memory already, so they cannot be refused. */
  hold(account: string, bytes: number): void {
    this.#held.add(account, bytes)
    if (bytes > SMALL_BYTES) this.#large.add(account, bytes)
  }

  /**
   * Frees bytes. `bytes` must be an amount that one call has counted. A waiting request that gets them continues in a later
   * microtask, never during this call.
   */
  release(account: string, bytes: number): void {
    this.#held.add(account, -bytes)
    if (bytes > SMALL_BYTES) {
      this.#large.add(account, -bytes)
      if (this.#reserved.of(account) === bytes) this.#reserved.add(account, -bytes)
    }
    if (this.#queue.size > 0) this.#grantWaiting()
  }

  resize(account: string, from: number, to: number): void {
    this.hold(account, to)
    this.release(account, from)
  }

  /** The bytes go to the reserve for newcomers if there is no other room. */
  #take(account: string, bytes: number): void {
    if (this.#reserveLimit > 0 && this.#decideRest(account, bytes) !== 'granted')
      this.#reserved.add(account, bytes)
    this.hold(account, bytes)
  }

  #hasReserveFor(account: string, bytes: number): boolean {
    if (bytes <= SMALL_BYTES || this.#large.of(account) > 0) return false
    return this.#reserved.total + bytes <= this.#reserveLimit
  }

  #decideRest(account: string, bytes: number): ByteDecision {
    const decision = this.#decide(account, bytes)
    return decision === 'granted' && this.#isRoomKept && bytes > SMALL_BYTES ? 'full' : decision
  }

  #decide(account: string, bytes: number): ByteDecision {
    const own = this.#held.of(account)
    const isWithinPart = own + bytes <= this.partOf(account)
    return bytes <= SMALL_BYTES
      ? this.#decideSmall(account, bytes, isWithinPart)
      : this.#decideLarge(account, bytes, isWithinPart)
  }

  #decideSmall(account: string, bytes: number, isWithinPart: boolean): ByteDecision {
    const kept = this.limit - this.#limitOfLarge
    const own = this.#held.of(account) - this.#large.of(account)
    if (!isWithinPart && own > 0 && own + bytes > kept / 2) return 'over part'
    const small = this.#held.total - this.#large.total
    return small === 0 || small + bytes <= kept || this.#held.total + bytes <= this.limit ? 'granted' : 'full'
  }

  #decideLarge(account: string, bytes: number, isWithinPart: boolean): ByteDecision {
    if (!isWithinPart && this.#large.of(account) > 0) return 'over part'
    // Bytes in the reserve for newcomers must not delay a thing that is larger than the share.
    if (this.#large.total <= this.#reserved.total) return 'granted'
    const hasRoom = this.#large.total + bytes <= this.#limitOfLarge && this.#held.total + bytes <= this.limit
    return hasRoom ? 'granted' : 'full'
  }

  /** One release can make room for several requests, even of accounts that exceeded their part. */
  #grantWaiting(): void {
    while (this.#grantNext()) {}
  }

  #grantNext(): boolean {
    this.#isRoomKept = false
    const byHeld = [...this.#queue].sort(([one], [other]) => this.#held.of(one) - this.#held.of(other))
    for (const [account, [request]] of byHeld) {
      if (request === undefined) continue
      const { bytes } = request
      const decision = this.decide(account, bytes)
      if (decision === 'full' && bytes > SMALL_BYTES) this.#isRoomKept = true
      if (decision !== 'granted') continue
      this.#grant(account, request)
      return true
    }
    return false
  }

  #grant(account: string, request: WaitingRequest): void {
    this.#take(account, request.bytes)
    this.#removeRequest(account, request)
    const others = this.#queue.get(account)
    if (others !== undefined) {
      this.#queue.delete(account)
      this.#queue.set(account, others)
    }
    request.signal.unlisten(request)
    request.resolve(true)
  }

  #addRequest(account: string, request: WaitingRequest): void {
    const requests = this.#queue.get(account) ?? new Set()
    this.#queue.set(account, requests.add(request))
    this.#waiting.add(account, 1)
  }

  #removeRequest(account: string, request: WaitingRequest): void {
    const requests = this.#queue.get(account)
    if (!requests?.delete(request)) return
    if (requests.size === 0) this.#queue.delete(account)
    if (this.#queue.size === 0) this.#isRoomKept = false
    this.#waiting.add(account, -1)
  }
}

export class ByteBudget {
  readonly uploads: ByteShare
  readonly requests: ByteShare
  readonly jobs: ByteShare
  readonly callbacks: ByteShare
  readonly answers: ByteShare

  /** @param maxCallbackBytes limits the share for callbacks, if that is less than their part of the total */
  constructor(totalBytes: number, maxCallbackBytes: number) {
    this.uploads = new ByteShare(totalBytes * SHARES.uploads)
    this.requests = new ByteShare(totalBytes * SHARES.requests)
    this.jobs = new ByteShare(totalBytes * SHARES.jobs, true)
    this.callbacks = new ByteShare(Math.min(totalBytes * SHARES.callbacks, maxCallbackBytes))
    this.answers = new ByteShare(totalBytes * SHARES.answers)
  }
}

/*
 * The factors estimate what things take in memory from the bytes of their text. They were measured (`byte-budget.test.ts`) with
 * ASCII text that has one character outside of Latin-1. V8 stores every character of such a text in two bytes, the most that a
 * text can take. Node reports only half of the memory of a large text of this kind that was decoded from a buffer, but the
 * factors include all of it.
 */

/** A body that is being received takes one buffer. */
const UPLOAD_FACTOR = 1
/** A received body takes its buffer, its text, and the messages that were parsed from it. */
const REQUEST_FACTOR = 5
/** A request that waits for its job keeps the messages, because the job is created again if it no longer exists. */
const WAITING_REQUEST_FACTOR = 2
/** A running job takes the JSON text of its messages, and the body of the call, both as text and as a buffer. */
const JOB_FACTOR = 5
/** A callback that is being sent takes the content, the payload, and the body made of them, both as text and as a buffer. */
const CALLBACK_FACTOR = 5
/** An answer that is being written takes the stored result, and the response made from it. */
const ANSWER_FACTOR = 4
/** What a running job takes in addition to its text: its objects, its slot, its call. */
const JOB_BYTES = 8 * 1024
/** What any other thing takes in addition to its text. */
const FIXED_BYTES = 1024

export const uploadBytes = (bodyBytes: number): number => FIXED_BYTES + bodyBytes * UPLOAD_FACTOR

export const requestBytes = (bodyBytes: number): number => FIXED_BYTES + bodyBytes * REQUEST_FACTOR

export const waitingRequestBytes = (bodyBytes: number): number =>
  FIXED_BYTES + bodyBytes * WAITING_REQUEST_FACTOR

/** @param textBytes the stored bytes of messages, response format and callback as JSON text */
export const jobBytes = (textBytes: number): number => JOB_BYTES + textBytes * JOB_FACTOR

export const callbackBytes = (bodyBytes: number): number => FIXED_BYTES + bodyBytes * CALLBACK_FACTOR

export const answerBytes = (textBytes: number): number => FIXED_BYTES + textBytes * ANSWER_FACTOR

/**
 * Estimates the bytes of a running job from the length of its texts in UTF-16 units. That is exact enough, and needs no pass
 * over the texts.
 */
export function bytesOfJob({
  messagesJson,
  responseFormatJson,
  callbackJson,
}: Pick<Job, 'messagesJson' | 'responseFormatJson' | 'callbackJson'>): number {
  const length = messagesJson.length + responseFormatJson.length + (callbackJson?.length ?? 0)
  return JOB_BYTES + length * JOB_FACTOR
}
