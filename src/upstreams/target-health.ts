/**
 * The health of a target, from the results of calls by account: a target can fail the calls of one account because of what
 * that account sends, and then only that account waits for it.
 *
 * | what happens | who waits |
 * |---|---|
 * | five jobs of an account fail in a row, one gets Retry-After, or one gives up | that account |
 * | the same because the target cannot be reached | all |
 * | the same for a second account, and no call succeeded since the other's last failure and while its own jobs failed | all |
 * | `GET /models` fails while an account waits | all |
 *
 * While all wait, one check serves all of them. The trial that follows may be any account's; one whose trial fails gets the next
 * one only after the others. While no call fails, nothing is kept about accounts.
 */
import type { Clock } from '../clock.ts'
import { CircuitBreaker, dropOldest, REMEMBERED } from './circuit-breaker.ts'
import type { Trouble } from './model-server.ts'

/** How many accounts with failures a target remembers; the oldest are dropped. */
export const MAX_ACCOUNTS = 256

/** The result of a call. `ignored`: this side aborted it. */
export type CallResult =
  | { readonly kind: 'success' }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'failure'; readonly retryAfterMs: number | null; readonly trouble: Trouble }

/** The state of an account whose calls failed: its circuit breaker, and how its jobs failed. */
class AccountHealth extends CircuitBreaker {
  /** Not a time: the number of calls of all accounts that had succeeded when a call of this one last failed. */
  failedAt: number | null = null
  /** How many of its calls have succeeded. */
  successes = 0
  /** By job: how many calls had succeeded at its last failure, and whether one succeeded between its last two failures. */
  readonly failures = new Map<string, { readonly successes: number; readonly succeededBetween: boolean }>()
}

export interface HealthListener {
  /** Asks the target for its list of models. Resolves to null if something responds; never rejects. */
  check(): Promise<Trouble | null>
  /** Called when the target may be called more, or less, than before. */
  changed(): void
  /** Called with the reason when calls stop succeeding, and with null when one succeeds again. */
  reported(trouble: Trouble | null): void
}

export class TargetHealth {
  /** The circuit breaker for all accounts. */
  readonly all: CircuitBreaker
  /** Functions that end the pauses of requests that have only this target, when a check was answered. */
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

  /** Stops all further checks. */
  close(): void {
    this.#isClosed = true
    this.#cancelCheck()
  }

  /** What is known about accounts whose calls have failed. */
  get accounts(): ReadonlyMap<string, AccountHealth> {
    return this.#accounts
  }

  /** Whether the account must not call now. */
  isOpen(account: string): boolean {
    return this.all.isOpen || this.#accounts.get(account)?.isOpen === true
  }

  /** Whether the target is available to the account, so that a failure shows something new. */
  isCallable(account: string): boolean {
    return this.#of(account).every(({ phase }) => phase === 'available')
  }

  /** Milliseconds until the account may be able to call. */
  untilCheckMs(account: string): number {
    return Math.max(...this.#of(account).map(({ untilCheckMs }) => untilCheckMs))
  }

  /** Since when no call of the account has succeeded, Unix time in milliseconds; null if it can be called. */
  unavailableSinceMs(account: string): number | null {
    const times = this.#of(account).flatMap(({ unavailableSinceMs }) => unavailableSinceMs ?? [])
    return times.length === 0 ? null : Math.min(...times)
  }

  /** When the target last became available to the account, Unix time in milliseconds. */
  availableSinceMs(account: string): number {
    return Math.max(...this.#of(account).map(({ availableSinceMs }) => availableSinceMs))
  }

  trouble(account: string): Trouble | null {
    return this.#accounts.get(account)?.trouble ?? this.all.trouble
  }

  /** Records the start of a job's call. Each call must end once. */
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

  /**
   * Whether another job succeeded between the last two failures of this one, so that it may be the cause. False for a job
   * whose previous failure this node has not seen.
   */
  succeededBetweenFailuresOf(account: string, jobId: string): boolean {
    return this.#accounts.get(account)?.failures.get(jobId)?.succeededBetween ?? false
  }

  /**
   * Whether no other job of the account has failed since the last success, so that this one may be the cause. If several jobs
   * fail, the target is more likely the cause.
   */
  failsAlone(account: string, jobId: string): boolean {
    for (const [other, { successes }] of this.#accounts.get(account)?.failures ?? []) {
      if (other !== jobId && successes === this.#successes) return false
    }
    return true
  }

  /** Forgets the failures of a job that has failed permanently: they show nothing about later jobs. */
  forget(account: string, jobId: string): void {
    this.#accounts.get(account)?.failures.delete(jobId)
  }

  /** How many calls of the account have succeeded since its calls last failed. */
  successesOf(account: string): number {
    return this.#accounts.get(account)?.successes ?? 0
  }

  /** Call this when all tries of a job have failed: the account waits, unless other calls of it succeeded meanwhile. */
  giveUp(account: string, trouble: Trouble, successesBefore: number): void {
    const own = this.#accounts.get(account)
    if (own === undefined || own.successes > successesBefore || !this.isCallable(account)) return
    own.open(trouble, 0)
    this.#considerAll(account, trouble)
  }

  /** How long until the next check is due, in milliseconds; null if none is. */
  get nextCheckMs(): number | null {
    const breakers = this.all.phase === 'unavailable' ? [this.all] : [...this.#accounts.values()]
    const waiting = breakers.filter(({ phase }) => phase === 'unavailable')
    return waiting.length === 0 ? null : Math.min(...waiting.map(({ untilCheckMs }) => untilCheckMs))
  }

  /**
   * Records the result of a check.
   * @param trouble null if something responded
   */
  checked(trouble: Trouble | null): void {
    const due = [...this.#accounts.values()].filter(
      ({ phase, untilCheckMs }) => phase === 'unavailable' && untilCheckMs === 0,
    )
    for (const breaker of due) breaker.checked(trouble)
    if (trouble !== null && due.length > 0 && this.all.phase === 'available') this.#openForAll(trouble)
    else if (this.all.untilCheckMs === 0) this.all.checked(trouble)
    if (trouble === null) for (const wake of this.wakers) wake()
  }

  /**
   * Since when no call has succeeded while at least one account waits: the breaker to report to operators. Null if calls of other
   * accounts succeed.
   */
  get reported(): CircuitBreaker | null {
    if (this.all.unavailableSinceMs !== null) return this.all
    for (const own of this.#accounts.values()) {
      if (own.unavailableSinceMs !== null && own.failedAt === this.#successes) return own
    }
    return null
  }

  /** The circuit breakers that must allow a call of the account. */
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
    // While all accounts wait, failures of earlier calls show nothing about their account, except for Retry-After.
    if (this.all.phase !== 'available' && retryAfterMs === null && !own.isTrialOf(jobId)) return
    if (own.failed(jobId, retryAfterMs, trouble) && isQuiet) this.#considerAll(account, trouble)
  }

  /**
   * Decides whether the target fails for all accounts. The calls of this account fail without a success in between. If those of
   * another one fail, too, the target is the cause, unless a call succeeded after the other's last failure.
   */
  #considerAll(account: string, trouble: Trouble): void {
    if (this.all.phase !== 'available') return
    const doOthersWait = [...this.#accounts].some(
      ([other, { unavailableSinceMs, failedAt }]) =>
        other !== account && unavailableSinceMs !== null && failedAt === this.#successes,
    )
    if (doOthersWait || trouble.kind === 'unreachable') this.#openForAll(trouble)
  }

  /** Waits for the shortest Retry-After of the waiting accounts, so that no single account can block the others. */
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

  /** Plans one check for all that wait, when the first of them is due. */
  #planCheck(): void {
    this.#cancelCheck()
    const inMs = this.nextCheckMs
    if (inMs === null || this.#isChecking || this.#isClosed) return
    this.#cancelCheck = this.#clock.after(inMs, () => void this.#check())
  }

  /** Never rejects. */
  async #check(): Promise<void> {
    // Retry-After may have delayed the check meanwhile.
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
