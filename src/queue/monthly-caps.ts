/**
 * Monthly caps: what an account may use until the month, in UTC, is over. They are judged by what the database says was
 * used and is open, looked at every two seconds at most, and by what this node has accepted since: so a node alone never
 * passes a cap on jobs, and several together pass it by what they accept in two seconds at most. Tokens are known when a
 * job ends; what was accepted until then still runs.
 */
import type { Clock } from '../clock.ts'
import { monthEndsMs, monthOf } from '../job/month.ts'
import type { Tier } from '../job/tier.ts'
import type { OwnCap, OwnCaps } from '../store/account-store.ts'
import type { UsageStore, Used } from '../store/usage-store.ts'

const FRESH_MS = 2000
/** Accounts remembered; beyond that all are looked at anew. */
const REMEMBERED = 10_000

export interface Cap {
  readonly limit: number
  /** Whose it is, in words: `tier user_free`, or `account acme`. */
  readonly of: string
}

export interface Caps {
  readonly jobs: Cap | null
  /** Input and output together. */
  readonly tokens: Cap | null
}

/** Null where nothing is capped. */
export function capsOf(account: string, tier: Tier, own: OwnCaps): Caps | null {
  const capOf = (ownCap: OwnCap, tierCap: number | null): Cap | null => {
    if (ownCap === 'none') return null
    if (ownCap !== null) return { limit: ownCap, of: `account ${account}` }
    return tierCap === null ? null : { limit: tierCap, of: `tier ${tier.name}` }
  }
  const jobs = capOf(own.monthlyJobs, tier.maxMonthlyJobs)
  const tokens = capOf(own.monthlyTokens, tier.maxMonthlyTokens)
  return jobs === null && tokens === null ? null : { jobs, tokens }
}

export interface CapReached {
  readonly kind: 'monthly cap'
  readonly unit: 'jobs' | 'tokens'
  readonly cap: Cap
  /** Ended and open jobs, or tokens. */
  readonly used: number
  readonly resetsAtMs: number
}

interface Known {
  readonly month: string
  readonly untilMs: number
  readonly used: Used
  /** Accepted here since the look began. */
  since: number
}

/** Jobs about to be accepted. */
export interface Reserved {
  readonly kind: 'reserved'
  /** They were accepted, or not. Called once. */
  end(accepted: boolean): void
}

export class MonthlyCaps {
  readonly #store: Pick<UsageStore, 'used'>
  readonly #clock: Clock
  readonly #known = new Map<string, Known>()
  readonly #looking = new Map<string, Promise<Known>>()
  /** Jobs of each account that are being accepted here. */
  readonly #underWay = new Map<string, number>()

  constructor(store: Pick<UsageStore, 'used'>, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** Rejects with `StoreUnavailable` where nobody can say what was used. */
  async reserve(account: string, caps: Caps, jobs: number): Promise<Reserved | CapReached> {
    const known = await this.#look(account)
    const underWay = this.#underWay.get(account) ?? 0
    const used = known.used.jobs + known.used.openJobs + known.since + underWay
    const reached = this.#reached(caps, jobs, used, known.used.tokens)
    if (reached) return reached
    this.#underWay.set(account, underWay + jobs)
    return { kind: 'reserved', end: (accepted) => this.#end(account, jobs, accepted) }
  }

  #reached(caps: Caps, jobs: number, usedJobs: number, usedTokens: number): CapReached | null {
    const resetsAtMs = monthEndsMs(this.#clock.nowMs())
    if (caps.jobs && usedJobs + jobs > caps.jobs.limit) {
      return { kind: 'monthly cap', unit: 'jobs', cap: caps.jobs, used: usedJobs, resetsAtMs }
    }
    if (caps.tokens && usedTokens >= caps.tokens.limit) {
      return { kind: 'monthly cap', unit: 'tokens', cap: caps.tokens, used: usedTokens, resetsAtMs }
    }
    return null
  }

  #end(account: string, jobs: number, accepted: boolean): void {
    const left = (this.#underWay.get(account) ?? 0) - jobs
    if (left > 0) this.#underWay.set(account, left)
    else this.#underWay.delete(account)
    const known = this.#known.get(account)
    if (accepted && known) known.since += jobs
  }

  #look(account: string): Known | Promise<Known> {
    const known = this.#known.get(account)
    const month = monthOf(this.#clock.nowMs())
    if (known && known.untilMs > this.#clock.steadyMs() && known.month === month) return known
    const looking = this.#looking.get(account) ?? this.#ask(account, month)
    this.#looking.set(account, looking)
    return looking
  }

  async #ask(account: string, month: string): Promise<Known> {
    const untilMs = this.#clock.steadyMs() + FRESH_MS
    // What is accepted from now on may be missing from the answer, so it counts here as well, for two seconds.
    const before = this.#known.get(account)
    if (before) before.since = 0
    try {
      const used = await this.#store.used(account, month)
      const known = { month, untilMs, used, since: before?.since ?? 0 }
      if (this.#known.size >= REMEMBERED) this.#known.clear()
      this.#known.set(account, known)
      return known
    } finally {
      this.#looking.delete(account)
    }
  }
}
