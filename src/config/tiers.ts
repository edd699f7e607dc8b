/** Converts the settings of the tiers to the tiers that the rest of the program uses. */
import type { Tier, TierName } from '../job/tier.ts'
import type { Settings, TierSettings } from './settings.ts'

export function tiersOf({ tiers, models }: Settings): readonly Tier[] {
  const settingsByName: Readonly<Record<TierName, TierSettings>> = tiers
  const allModels = Object.keys(models)
  return Object.entries(settingsByName).map(([name, tier]) => ({
    name,
    models: new Set(tier.models === 'all' ? allModels : tier.models),
    maxBatchJobs: tier.max_batch_jobs,
    readsPerMinute: tier.reads_per_minute,
    maxInputTokens: tier.max_input_tokens,
    weight: tier.weight,
    maxMonthlyJobs: tier.max_monthly_jobs,
    maxMonthlyTokens: tier.max_monthly_tokens,
    maxOpenJobs: tier.max_open_jobs,
    maxStoredBytes: tier.max_stored_bytes,
  }))
}
