/**
 * The usage, receipt and error of a job that finishes without another call to a model: a cached response completes it, it is
 * overdue, or it is cancelled. Earlier runs (`queue/execution-result.ts`) count, unless an operator cancels the job.
 */
import { sumOfCosts } from './amount.ts'
import { type JobError, NO_USAGE, type Usage } from './job.ts'
import type { FormatParts } from './response-format.ts'

export interface ReceiptFormat {
  readonly form: FormatParts['kind']
  readonly strict?: boolean
  readonly ignored?: readonly string[]
}

export const TEXT_FORMAT: ReceiptFormat = { form: 'text' }

export interface EarlierUsage {
  /** The number includes calls that are not in `records`. */
  readonly calls: number
  /** Only the latest calls are recorded. */
  readonly records: readonly unknown[]
  readonly inputTokens: number
  readonly outputTokens: number
  /** Versions up to 0.3 did not store this. */
  readonly cachedTokens?: number
  /** In millionths of the currency; absent if the model has no price. Versions up to 0.3 did not store the cost. */
  readonly cost?: number
  /** Versions up to 0.4.0 did not store this. It is absent for text. */
  readonly format?: ReceiptFormat
  readonly repair?: unknown
}

const NOTHING: EarlierUsage = { calls: 0, records: [], inputTokens: 0, outputTokens: 0 }

export function readEarlierUsage(earlierJson: string | null): EarlierUsage {
  return { ...NOTHING, ...(earlierJson !== null && JSON.parse(earlierJson)) }
}

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

/** `queue/execution-result.ts` writes receipts of the same form. */
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

export const CACHE_HIT_USAGE: Usage = { ...NO_USAGE, cache_hit: true }
/** A job whose model has a price always stores a cost. */
export const FREE_CACHE_HIT_USAGE: Usage = { ...CACHE_HIT_USAGE, cost: 0 }
export const CACHE_HIT_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })

export function overdueResult(
  earlierJson: string | null,
  isPriced: boolean,
): { usage: Usage; receiptJson: string } {
  const earlier = { ...(isPriced && { cost: 0 }), ...readEarlierUsage(earlierJson) }
  return { usage: usageOfEarlier(earlier), receiptJson: JSON.stringify(receiptOfEarlier(earlier)) }
}

type CancelledBy = 'caller' | 'operator'

const MESSAGES: Readonly<Record<CancelledBy, string>> = {
  caller: 'The caller cancelled the job.',
  operator: 'An operator of the service cancelled the job.',
}

export function cancelledErrorJson(by: CancelledBy): string {
  const error: JobError = { code: 'cancelled', message: MESSAGES[by], cancelled_by: by }
  return JSON.stringify(error)
}

/** Recognizes the errors that any version has stored. */
export function isCancelledError(errorJson: string | null): boolean {
  return errorJson?.startsWith('{"code":"cancelled"') === true
}

interface CancelledRun {
  readonly isHeld: boolean
  readonly inputTokens: number
  /** The cost of a call with these tokens, in millionths of the currency; null if the model has no price. */
  readonly inputCost: number | null
  readonly earlierJson: string | null
}

/** If a node holds the job, a call with its input tokens counts, because the model server will most likely bill for it. */
export function usageOfCancelled({ isHeld, inputTokens, inputCost, earlierJson }: CancelledRun): string {
  const earlier = readEarlierUsage(earlierJson)
  const isPriced = inputCost !== null || earlier.cost !== undefined
  const cost = sumOfCosts(earlier.cost ?? 0, isHeld ? (inputCost ?? 0) : 0)
  const usage = usageOfEarlier({
    ...earlier,
    calls: earlier.calls + (isHeld ? 1 : 0),
    inputTokens: earlier.inputTokens + (isHeld ? inputTokens : 0),
    ...(isPriced && { cost }),
  })
  return JSON.stringify(usage)
}

/**
 * An operator's cancellation has the same outcome for every job, so that one statement can cancel many. Earlier runs do not
 * count.
 */
export const CANCELLED_ERROR_JSON = cancelledErrorJson('operator')
export const CANCELLED_USAGE_JSON = JSON.stringify(NO_USAGE)
/** A job whose model has a price always stores a cost, so usage without one gets `cost: 0`. */
export function pricedUsageJson(usageJson: string): string {
  return JSON.stringify({ cost: 0, ...JSON.parse(usageJson) })
}
export const CANCELLED_RECEIPT_JSON = JSON.stringify({ form: 'text', calls: [] })
