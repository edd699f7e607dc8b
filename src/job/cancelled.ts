/** The error of a cancelled job, which records who cancelled it, and the usage of a job that its caller cancelled. */
import { sumOfCosts } from './amount.ts'
import { readEarlierUsage, usageOfEarlier } from './earlier-usage.ts'
import type { JobError } from './job.ts'

export type CancelledBy = 'caller' | 'operator'

const MESSAGES: Readonly<Record<CancelledBy, string>> = {
  caller: 'The caller cancelled the job.',
  operator: 'An operator of the service cancelled the job.',
}

/** The error in the form in which it is stored and sent. */
export function cancelledErrorJson(by: CancelledBy): string {
  const error: JobError = { code: 'cancelled', message: MESSAGES[by], cancelled_by: by }
  return JSON.stringify(error)
}

/** Whether this is the error of a cancelled job, in the form of any version. */
export function isCancelledError(errorJson: string | null): boolean {
  return errorJson?.startsWith('{"code":"cancelled"') === true
}

/** The facts that determine the usage of a job that its caller cancels. */
export interface CancelledRun {
  readonly isHeld: boolean
  readonly inputTokens: number
  /** The cost of one call with these tokens, in millionths of the currency; null if the model has no price. */
  readonly inputCost: number | null
  /** The usage of earlier runs, which `queue/execution-result.ts` writes; null if there were none. */
  readonly earlierJson: string | null
}

/**
 * The usage of the job, as JSON text. If a node holds the job, a call counts with its input tokens, because the model server
 * will most likely bill for it.
 */
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
