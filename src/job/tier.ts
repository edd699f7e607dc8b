/** What a tier allows (SPEC §8). */

export interface Tier {
  readonly name: string
  /** Public model names, or all of them. */
  readonly models: 'all' | readonly string[]
  readonly maxBatchJobs: number
  readonly readsPerMinute: number
  readonly maxInputTokens: number
  /** Share of the workers when jobs wait. */
  readonly weight: number
}

export function tierAllows(tier: Tier, model: string): boolean {
  return tier.models === 'all' || tier.models.includes(model)
}

/** How far a job moves its account's next turn: an account of twice the weight moves half as far. */
export function turnStep(tier: Tier): number {
  return Math.max(1, Math.round(1000 / tier.weight))
}
