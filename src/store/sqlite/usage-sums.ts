/**
 * The usage that a transaction has yet to write: it is summed in memory and written once at the end, so that a group of a
 * thousand jobs of one account costs one row.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Usage } from '../../job/job.ts'
import { monthOf } from '../../job/month.ts'
import type { UsageKey, UsageRecord } from '../usage-store.ts'

/** A job that has just ended. */
export interface EndedUse {
  readonly account: string
  readonly model: string
  readonly failed: boolean
  readonly usageJson: string
  readonly nowMs: number
}

type Sums = { -readonly [Name in keyof UsageRecord]: UsageRecord[Name] }

/** The maximum of a sum of tokens. A model server may report any number, and that must not keep a job from being settled. */
const MAX_TOKENS = Number.MAX_SAFE_INTEGER

export class UsageSums {
  readonly #sums = new Map<string, Sums>()

  /** Counts a job. */
  add({ account, model, failed, usageJson, nowMs }: EndedUse): void {
    const usage: Usage = JSON.parse(usageJson)
    const sums = this.#sumsOf({ account, month: monthOf(nowMs), model })
    sums.jobs += 1
    if (failed) sums.failedJobs += 1
    if (usage.cache_hit) sums.cacheHits += 1
    sums.calls += usage.calls
    sums.inputTokens = Math.min(sums.inputTokens + usage.input_tokens, MAX_TOKENS)
    sums.outputTokens = Math.min(sums.outputTokens + usage.output_tokens, MAX_TOKENS)
  }

  /** Writes what was counted: the last statements of a transaction. */
  write(file: Pick<DatabaseSync, 'prepare'>): void {
    if (this.#sums.size === 0) return
    for (const sums of this.#sums.values()) {
      const { account, month, model, jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens } = sums
      file
        .prepare(ADD)
        .run(account, month, model, jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens)
    }
    this.#sums.clear()
  }

  /** Forgets what was counted in a transaction that was rolled back. */
  forget(): void {
    this.#sums.clear()
  }

  #sumsOf(key: UsageKey): Sums {
    const name = `${key.month}\n${key.account}\n${key.model}`
    let sums = this.#sums.get(name)
    if (!sums) {
      sums = { ...key, jobs: 0, failedJobs: 0, cacheHits: 0, calls: 0, inputTokens: 0, outputTokens: 0 }
      this.#sums.set(name, sums)
    }
    return sums
  }
}

const ADD = `
  insert into usage (account, month, model, jobs, failed_jobs, cache_hits, calls, input_tokens, output_tokens)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?)
  on conflict do update set jobs = jobs + excluded.jobs, failed_jobs = failed_jobs + excluded.failed_jobs,
    cache_hits = cache_hits + excluded.cache_hits, calls = calls + excluded.calls,
    input_tokens = min(input_tokens + excluded.input_tokens, ${MAX_TOKENS}),
    output_tokens = min(output_tokens + excluded.output_tokens, ${MAX_TOKENS})`
