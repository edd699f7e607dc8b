/** Limits how many jobs a batch may have: at least one, at most what the account's tier allows (SPEC §8, `Tier.maxBatchJobs`). */

export type LengthProblem =
  | { readonly kind: 'not an array' | 'empty' }
  | { readonly kind: 'too long'; readonly jobs: number }

/**
 * Why a body is not a batch of an allowed length; null if it is. Checked before the fields, so that a batch over the limit costs
 * no more than parsing.
 */
export function batchLengthProblem(body: unknown, maxJobs: number): LengthProblem | null {
  if (!Array.isArray(body)) return { kind: 'not an array' }
  if (body.length === 0) return { kind: 'empty' }
  return body.length > maxJobs ? { kind: 'too long', jobs: body.length } : null
}
