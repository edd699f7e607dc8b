/** Converts settings to what other folders need: tiers, thresholds of models, and where callbacks may be sent. */

import { microsOf } from '../job/amount.ts'
import type { Tier } from '../job/tier.ts'
import { type AddressRules, readNetworks } from '../net/ssrf-guard.ts'
import type { Settings, TierSettings } from './settings.ts'

export function tiersOf({ tiers, models }: Settings): readonly Tier[] {
  const settingsByName: Readonly<Record<string, TierSettings>> = tiers
  const allModels = Object.keys(models)
  return Object.entries(settingsByName).map(([name, tier]) => ({
    name,
    models: new Set(tier.models === 'all' ? allModels : tier.models),
    maxBatchJobs: tier.max_batch_jobs,
    readsPerMinute: tier.reads_per_minute,
    createsPerMinute: tier.creates_per_minute,
    maxInputTokens: tier.max_input_tokens,
    maxOutputTokens: tier.max_output_tokens,
    priorities: new Set(tier.priorities),
    weight: tier.weight,
    maxMonthlyJobs: tier.max_monthly_jobs,
    maxMonthlyTokens: tier.max_monthly_tokens,
    maxMonthlyCost: tier.max_monthly_cost === null ? null : microsOf(tier.max_monthly_cost),
    overCap: tier.over_cap,
    maxOpenJobs: tier.max_open_jobs,
    maxStoredBytes: tier.max_stored_bytes,
    maxFiles: tier.max_files,
    maxFileBytes: tier.max_file_bytes,
    maxBatchLines: tier.max_batch_lines,
  }))
}

/**
 * Returns how many input tokens a job may have before their exact number decides which model answers; infinite if the number
 * never matters. Tokens of larger jobs are counted exactly when the job is created.
 */
export function exactCountThresholds({ models }: Settings): ReadonlyMap<string, number> {
  return new Map(
    Object.entries(models).map(([name, { auto = [] }]) => {
      const sizes = auto.flatMap(({ up_to_tokens }) => up_to_tokens ?? [])
      return [name, Math.min(...sizes)]
    }),
  )
}

/** An Idempotency-Key is not remembered longer than its jobs are stored. */
export function idempotencySeconds({ limits, jobs }: Settings): number {
  return Math.min(limits.idempotency_seconds, jobs.retention_seconds)
}

/** The networks are valid, because loading the configuration has checked them. */
export function addressRulesOf({ callbacks }: Settings): AddressRules {
  const read = readNetworks(callbacks.allow_networks)
  return { allow: read.ok ? read.networks : [], httpsOnly: callbacks.https_only }
}
