/**
 * Tracks the health of a target by the results of each account's calls. A target can fail the calls of one account because of
 * what that account sends; then only that account waits for the target.
 *
 * | what happens | who waits |
 * |---|---|
 * | five jobs of an account fail in a row, one gets Retry-After, or one gives up | that account |
 * | the same because the target cannot be reached | all |
 * | the same for a second account, and no call succeeded since the other's last failure and while its own jobs failed | all |
 * | `GET /models` fails while an account waits | all |
 *
 * While all wait, one check serves all of them, and any account's job can be the trial that follows. If the trial fails, its
 * account must also wait for a trial of its own. While no call fails, nothing is stored about accounts.
 */
import type { Clock } from '../clock.ts'
import { CircuitBreaker, dropOldest, REMEMBERED } from './circuit-breaker.ts'
import type { Trouble } from './model-server.ts'

/** A target remembers at most this many accounts with failures; the oldest are dropped. */
export const MAX_ACCOUNTS = 256

/** An `ignored` call was aborted by Parley, so it shows nothing about the target. */
export type CallResult =
  | { readonly kind: 'success' }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'failure'; readonly retryAfterMs: number | null; readonly trouble: Trouble }

class AccountHealth extends CircuitBreaker {
  /** A call of this account last failed when `TargetHealth.#successes` had this value. This is a count, not a time. */
  failedAt: number | null = null
  successes = 0
  /**
   * Maps each job to `TargetHealth.#successes` at its last failure, and to whether any call succeeded between its last two
   * failures.
   */
  readonly failures = new Map<string, { readonly successes: number; readonly succeededBetween: boolean }>()
}

export interface HealthListener {
  /** Requests the target's list of models. Resolves with null if something responds; never rejects. */
  check(): Promise<Trouble | null>
  /** The target calls this when more or fewer calls may start than before. */
  changed(): void
  /** The target calls this with the reason when calls no longer succeed, and with null when one succeeds again. */
  reported(trouble: Trouble | null): void
}

export class TargetHealth {
  readonly all: CircuitBreaker
  /** These functions end the pauses of isolated jobs, after an answered check. */
  readonly wakers = new Set<() => void>()
  readonly #accounts = new Map<string, AccountHealth>()
  readonly #clock: Clock
  readonly #random: () => number
  readonly #listener: HealthListener
  #successes = 0
  #isReported = false
  #isChecking = false
  #cancelCheck: () => void = () => {}
  #isClosed = false

  constructor(clock: Clock, random: () => number, listener: HealthListener) {
    this.#clock = clock
    this.#random = random
    this.#listener = listener
    this.all = new CircuitBreaker(clock, random, () => this.#changed())
  }

  close(): void {
    this.#isClosed = true
    this.#cancelCheck()
  }

  get accounts(): ReadonlyMap<string, AccountHealth> {
    return this.#accounts
  }

  isOpen(account: string): boolean {
    return this.all.isOpen || this.#accounts.get(account)?.isOpen === true
  }

  isCallable(account: string): boolean {
    return this.#of(account).every(({ phase }) => phase === 'available')
  }

  untilCheckMs(account: string): number {
    return Math.max(...this.#of(account).map(({ untilCheckMs }) => untilCheckMs))
  }

  /** Returns when the target became unavailable to the account (Unix time); null if the account can call it. */
  unavailableSinceMs(account: string): number | null {
    const times = this.#of(account).flatMap(({ unavailableSinceMs }) => unavailableSinceMs ?? [])
    return times.length === 0 ? null : Math.min(...times)
  }

  /** Returns the time at which the target last became available to the account (Unix time). */
  availableSinceMs(account: string): number {
    return Math.max(...this.#of(account).map(({ availableSinceMs }) => availableSinceMs))
  }

  trouble(account: string): Trouble | null {
    return this.#accounts.get(account)?.trouble ?? this.all.trouble
  }

  /** Call `ended` once for each call. */
  began(account: string, jobId: string): void {
    this.all.began(jobId)
    this.#accounts.get(account)?.began(jobId)
  }

  ended(account: string, jobId: string, result: CallResult): void {
    const own = this.#accounts.get(account)
    if (result.kind === 'failure') this.#failed(account, jobId, result)
    else if (result.kind === 'ignored') {
      this.all.ignored(jobId)
      own?.ignored(jobId)
    } else {
      this.#successes += 1
      this.all.succeeded(jobId)
      if (own !== undefined) {
        own.successes += 1
        own.failures.delete(jobId)
        own.succeeded(jobId)
        if (own.phase === 'available' && own.failures.size === 0) this.#accounts.delete(account)
      }
      if (this.#isReported) this.#report()
    }
  }

  /** Returns whether a call succeeded between this job's last two failures, so that the job may be the cause. */
  succeededBetweenFailuresOf(account: string, jobId: string): boolean {
    return this.#accounts.get(account)?.failures.get(jobId)?.succeededBetween ?? false
  }

  /** Returns whether no other job of the account has failed since the last success, so that this job may be the cause. */
  failsAlone(account: string, jobId: string): boolean {
    for (const [other, { successes }] of this.#accounts.get(account)?.failures ?? []) {
      if (other !== jobId && successes === this.#successes) return false
    }
    return true
  }

  /** Forgets the failures of a job that has failed permanently, because they show nothing about other jobs. */
  forget(account: string, jobId: string): void {
    this.#accounts.get(account)?.failures.delete(jobId)
  }

  /** Returns how many calls of the account have succeeded since the account has had a state; 0 if it has none. */
  successesOf(account: string): number {
    return this.#accounts.get(account)?.successes ?? 0
  }

  /** Call this when all tries of a job failed. The account waits unless it had successes after `successesBefore`. */
  giveUp(account: string, trouble: Trouble, successesBefore: number): void {
    const own = this.#accounts.get(account)
    if (own === undefined || own.successes > successesBefore || !this.isCallable(account)) return
    own.open(trouble, 0)
    this.#considerAll(account, trouble)
  }

  /** How long until the next check is due; null if no account waits for a check. */
  get nextCheckMs(): number | null {
    const breakers = this.all.phase === 'unavailable' ? [this.all] : [...this.#accounts.values()]
    const waiting = breakers.filter(({ phase }) => phase === 'unavailable')
    return waiting.length === 0 ? null : Math.min(...waiting.map(({ untilCheckMs }) => untilCheckMs))
  }

  /** If something responded, `trouble` is null. */
  checked(trouble: Trouble | null): void {
    const due = [...this.#accounts.values()].filter(
      ({ phase, untilCheckMs }) => phase === 'unavailable' && untilCheckMs === 0,
    )
    for (const breaker of due) breaker.checked(trouble)
    if (trouble !== null && due.length > 0 && this.all.phase === 'available') this.#openForAll(trouble)
    else if (this.all.untilCheckMs === 0) this.all.checked(trouble)
    if (trouble === null) for (const wake of this.wakers) wake()
  }

  /** Operators see this breaker if an account waits and no call succeeds. Successes of other accounts make it null. */
  get reported(): CircuitBreaker | null {
    if (this.all.unavailableSinceMs !== null) return this.all
    for (const own of this.#accounts.values()) {
      if (own.unavailableSinceMs !== null && own.failedAt === this.#successes) return own
    }
    return null
  }

  /** These circuit breakers must all permit a call of the account. */
  #of(account: string): readonly CircuitBreaker[] {
    const own = this.#accounts.get(account)
    return own === undefined ? [this.all] : [own, this.all]
  }

  #failed(
    account: string,
    jobId: string,
    { retryAfterMs, trouble }: Extract<CallResult, { kind: 'failure' }>,
  ): void {
    const own = this.#accounts.get(account) ?? this.#add(account)
    const isQuiet = own.failedAt === null || own.failedAt === this.#successes
    own.failedAt = this.#successes
    const before = own.failures.get(jobId)
    const succeededBetween = before !== undefined && before.successes < this.#successes
    own.failures.delete(jobId)
    own.failures.set(jobId, { successes: this.#successes, succeededBetween })
    dropOldest(own.failures, REMEMBERED)
    if (this.all.isTrialOf(jobId)) {
      own.remember(jobId)
      own.open(trouble, retryAfterMs ?? 0)
      this.all.failed(jobId, null, trouble)
      return
    }
    this.all.remember(jobId)
    // While all accounts wait, failures of earlier calls show nothing about their account, except Retry-After.
    if (this.all.phase !== 'available' && retryAfterMs === null && !own.isTrialOf(jobId)) return
    if (own.failed(jobId, retryAfterMs, trouble) && isQuiet) this.#considerAll(account, trouble)
  }

  /**
   * Opens the breaker for all accounts if the target is unreachable, or if another account also waits and no call has succeeded
   * since that account's last failure. Call this only if the calls of this account failed without a success in between.
   */
  #considerAll(account: string, trouble: Trouble): void {
    if (this.all.phase !== 'available') return
    const doOthersWait = [...this.#accounts].some(
      ([other, { unavailableSinceMs, failedAt }]) =>
        other !== account && unavailableSinceMs !== null && failedAt === this.#successes,
    )
    if (doOthersWait || trouble.kind === 'unreachable') this.#openForAll(trouble)
  }

  /** Respects only the shortest Retry-After of the waiting accounts, so that no account can block the others. */
  #openForAll(trouble: Trouble): void {
    this.all.open(trouble, this.nextCheckMs ?? 0)
  }

  #add(account: string): AccountHealth {
    const added = new AccountHealth(this.#clock, this.#random, () => this.#changed())
    this.#accounts.set(account, added)
    if (this.#accounts.size > MAX_ACCOUNTS) {
      dropOldest(this.#accounts, MAX_ACCOUNTS)
      this.#changed()
    }
    return added
  }

  #changed(): void {
    this.#planCheck()
    this.#report()
    this.#listener.changed()
  }

  /** One check serves all breakers that wait. It runs when the first of them is due. */
  #planCheck(): void {
    this.#cancelCheck()
    const inMs = this.nextCheckMs
    if (inMs === null || this.#isChecking || this.#isClosed) return
    this.#cancelCheck = this.#clock.after(inMs, () => void this.#check())
  }

  async #check(): Promise<void> {
    // Retry-After may have delayed the check since it was planned.
    if (this.nextCheckMs === 0) {
      this.#isChecking = true
      const trouble = await this.#listener.check()
      this.#isChecking = false
      if (!this.#isClosed) this.checked(trouble)
    }
    this.#planCheck()
  }

  #report(): void {
    const breaker = this.reported
    if ((breaker !== null) === this.#isReported) return
    this.#isReported = breaker !== null
    this.#listener.reported(breaker?.trouble ?? null)
  }
}
