/** The usage of a job's earlier runs, if it had to wait for a model server: a part of what `queue/earlier-runs.ts` stores. */
import { NO_USAGE, type Usage } from './job.ts'

export interface EarlierUsage {
  /** The number of all calls. */
  readonly calls: number
  /** The latest calls, in the form of receipts. */
  readonly records: readonly unknown[]
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cachedTokens?: number
  /** Absent if the model has no price. */
  readonly cost?: number
}

const NOTHING: EarlierUsage = { calls: 0, records: [], inputTokens: 0, outputTokens: 0 }

export function readEarlierUsage(earlierJson: string | null): EarlierUsage {
  return { ...NOTHING, ...(earlierJson !== null && JSON.parse(earlierJson)) }
}

/** The usage of a job that ends without another call. */
export function usageOfEarlier(earlier: Omit<EarlierUsage, 'records'>): Usage {
  const { calls, inputTokens, outputTokens, cachedTokens, cost } = earlier
  return {
    ...NO_USAGE,
    calls,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    ...(cachedTokens !== undefined && { cached_input_tokens: cachedTokens }),
    ...(cost !== undefined && { cost }),
  }
}
