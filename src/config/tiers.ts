/** From the settings of the tiers to the tiers that the rest of the program knows. */
import { type TierName, Tiers } from '../job/tier.ts'
import type { Settings, TierSettings } from './settings.ts'

export function tiersOf({ tiers }: Settings): Tiers {
  const named: Readonly<Record<TierName, TierSettings>> = tiers
  return new Tiers(
    Object.entries(named).map(([name, tier]) => ({
      name,
      models: tier.models,
      maxBatchJobs: tier.max_batch_jobs,
      readsPerMinute: tier.reads_per_minute,
      maxInputTokens: tier.max_input_tokens,
      weight: tier.weight,
      maxMonthlyJobs: tier.max_monthly_jobs,
      maxMonthlyTokens: tier.max_monthly_tokens,
    })),
  )
}
