/**
 * Enforces monthly caps on jobs and tokens. A month ends at midnight UTC. A node reads the account's usage and open jobs from
 * the database at most every two seconds, and adds the jobs that it has accepted since. So a single node does not exceed a cap
 * on jobs, but several nodes may exceed it by the jobs that they accept in about two seconds. Tokens count only when their job
 * finishes, so jobs that were accepted before the cap was reached still run. The store enforces cost caps (`usage-store.ts`),
 * because only the store knows what the open jobs of all nodes may cost.
 */
import type { Clock } from '../clock.ts'
import { monthEndsMs, monthOf } from '../job/month.ts'
import type { Tier } from '../job/tier.ts'
import { LookupCache } from '../lookup-cache.ts'
import type { OwnCap, OwnCaps } from '../store/account-store.ts'
import type { UsageStore, Used } from '../store/usage-store.ts'

const FRESH_MS = 2000
const MAX_ACCOUNTS = 10_000

export interface Cap {
  readonly limit: number
  /** Where the cap is set, for error messages: `tier user_free`, or `account acme`. */
  readonly of: string
}

export interface Caps {
  readonly jobs: Cap | null
  /** Both input and output tokens count. */
  readonly tokens: Cap | null
  /** The cap is in millionths of the currency. */
  readonly cost: Cap | null
}

/** Returns null if nothing is capped. */
export function capsOf(
  account: string,
  tier: Tier,
  own: Pick<OwnCaps, 'monthlyJobs' | 'monthlyTokens' | 'monthlyCost'>,
): Caps | null {
  const jobs = capOf(account, tier, own.monthlyJobs, tier.maxMonthlyJobs)
  const tokens = capOf(account, tier, own.monthlyTokens, tier.maxMonthlyTokens)
  const cost = capOf(account, tier, own.monthlyCost ?? null, tier.maxMonthlyCost)
  return jobs === null && tokens === null && cost === null ? null : { jobs, tokens, cost }
}

/** Returns the account's own cap. Without one, returns the cap of the tier; null for none. */
export function capOf(account: string, tier: Tier, ownCap: OwnCap, tierCap: number | null): Cap | null {
  if (ownCap === 'none') return null
  if (ownCap !== null) return { limit: ownCap, of: `account ${account}` }
  return tierCap === null ? null : { limit: tierCap, of: `tier ${tier.name}` }
}

export interface CapReached {
  readonly kind: 'monthly cap'
  readonly unit: 'jobs' | 'tokens' | 'cost'
  readonly cap: Cap
  /**
   * For jobs, this counts those that are finished, open or being accepted; for tokens, those used; for cost, that of finished
   * jobs plus the estimates for open ones.
   */
  readonly used: number
  /** The request may cost this much; present only for a cost cap. */
  readonly added?: number
  readonly resetsAtMs: number
}

interface AccountUse {
  readonly used: Used
  /** This node has accepted these jobs since the last lookup, so `used` might not include them. */
  acceptedSince: number
}

/** Counts jobs that are about to be accepted, until `end`. */
export interface Reserved {
  readonly kind: 'reserved'
  /** Call this once, whether or not the jobs were accepted. */
  end(accepted: boolean): void
}

export class JobAndTokenCaps {
  readonly #clock: Clock
  /** The key contains the account and the month, so that usage starts at 0 each month. */
  readonly #uses: LookupCache<AccountUse>
  /** How many jobs of each account this node is accepting, and a promise that resolves when it accepts none. */
  readonly #reserved = new Map<string, PromiseWithResolvers<void> & { jobs: number }>()

  constructor(store: Pick<UsageStore, 'used'>, clock: Clock) {
    this.#clock = clock
    this.#uses = new LookupCache({
      clock,
      freshMs: FRESH_MS,
      maxEntries: MAX_ACCOUNTS,
      lookUp: (key) => this.#lookUp(store, key),
    })
  }

  /** Rejects with `StoreUnavailable` if the usage cannot be read. */
  async reserve(account: string, caps: Omit<Caps, 'cost'>, jobs: number): Promise<Reserved | CapReached> {
    const key = `${account} ${monthOf(this.#clock.nowMs())}`
    const use = await this.#uses.get(key)
    const reserved = this.#reserved.get(account) ?? { jobs: 0, ...Promise.withResolvers<void>() }
    const usedJobs = use.used.jobs + use.used.openJobs + use.acceptedSince + reserved.jobs
    const reached = this.#reached(caps, jobs, usedJobs, use.used.tokens)
    if (reached) return reached
    reserved.jobs += jobs
    this.#reserved.set(account, reserved)
    return { kind: 'reserved', end: (accepted) => this.#end(account, key, jobs, accepted) }
  }

  #reached(caps: Omit<Caps, 'cost'>, jobs: number, usedJobs: number, usedTokens: number): CapReached | null {
    const resetsAtMs = monthEndsMs(this.#clock.nowMs())
    if (caps.jobs && usedJobs + jobs > caps.jobs.limit) {
      return { kind: 'monthly cap', unit: 'jobs', cap: caps.jobs, used: usedJobs, resetsAtMs }
    }
    if (caps.tokens && usedTokens >= caps.tokens.limit) {
      return { kind: 'monthly cap', unit: 'tokens', cap: caps.tokens, used: usedTokens, resetsAtMs }
    }
    return null
  }

  #end(account: string, key: string, jobs: number, accepted: boolean): void {
    const use = this.#uses.peek(key)
    if (accepted && use) use.acceptedSince += jobs
    const reserved = this.#reserved.get(account)
    if (reserved === undefined) return
    reserved.jobs -= jobs
    if (reserved.jobs > 0) return
    this.#reserved.delete(account)
    reserved.resolve()
  }

  /**
   * Waits until no job of the account is being accepted. Otherwise the result might include jobs that are also counted here,
   * and the account would be rejected too early.
   */
  async #lookUp(store: Pick<UsageStore, 'used'>, key: string): Promise<AccountUse> {
    const [account = '', month = ''] = key.split(' ')
    await this.#reserved.get(account)?.promise
    // The query may miss jobs that are accepted from now on, so they count here until the next lookup.
    const before = this.#uses.peek(key)
    if (before) before.acceptedSince = 0
    const used = await store.used(account, month)
    return { used, acceptedSince: before?.acceptedSince ?? 0 }
  }
}
