/**
 * Reads what `queue/execution-result.ts` stores about the earlier runs of a job: their usage, and their calls for the receipt.
 * Unlike that file, the stores can import this one.
 */
import { NO_USAGE, type Usage } from './job.ts'
import type { FormatParts } from './response-format.ts'

/** The part of a receipt about the format of the answer. */
export interface ReceiptFormat {
  readonly form: FormatParts['kind']
  readonly strict?: boolean
  /** JSON pointers to parts of the schema that were not checked. */
  readonly ignored?: readonly string[]
}

export const TEXT_FORMAT: ReceiptFormat = { form: 'text' }

export interface EarlierUsage {
  /** The number of all calls. */
  readonly calls: number
  /** The latest calls, in the form of receipts. */
  readonly records: readonly unknown[]
  readonly inputTokens: number
  readonly outputTokens: number
  /** Absent if none were cached. Versions up to 0.3 did not store it. */
  readonly cachedTokens?: number
  /** The cost of all calls; absent if the model has no price. Versions up to 0.3 did not store it. */
  readonly cost?: number
  /** Absent for text. Versions up to 0.4.0 did not store it. */
  readonly format?: ReceiptFormat
  /** The answer to repair; absent if there is none. */
  readonly repair?: unknown
}

const NOTHING: EarlierUsage = { calls: 0, records: [], inputTokens: 0, outputTokens: 0 }

export function readEarlierUsage(earlierJson: string | null): EarlierUsage {
  return { ...NOTHING, ...(earlierJson !== null && JSON.parse(earlierJson)) }
}

/** The usage of a job that finishes without another call. */
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

/** The receipt of a job that finishes without another call, in the form that `queue/execution-result.ts` writes. */
export function receiptOfEarlier<Call, Repair>(
  earlier: Pick<EarlierUsage, 'calls' | 'format'> & {
    readonly records: readonly Call[]
    readonly repair?: Repair
  },
) {
  const { calls, records, format = TEXT_FORMAT, repair } = earlier
  const omitted = calls - records.length
  return {
    ...format,
    calls: records,
    ...(omitted > 0 && { calls_omitted: omitted }),
    ...(repair !== undefined && { repair }),
  }
}
