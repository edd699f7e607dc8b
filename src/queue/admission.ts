/**
 * From creation objects of the right shape to jobs, or to the error of the first rule that is broken: first the fields of
 * every element (400), then what the tier does not allow (403).
 */
import { type Clock, wholeMs } from '../clock.ts'
import type { CreateElement } from '../job/create-element.ts'
import { CACHE_TTL_S } from '../job/field-bounds.ts'
import { type Callback, callbackText, type Job } from '../job/job.ts'
import type { Problem } from '../job/request.ts'
import type { Tier } from '../job/tier.ts'
import { checkCallbackHeaders } from '../net/callback-headers.ts'
import { type AddressRules, checkCallbackUrl } from '../net/ssrf-guard.ts'
import type { TokenCount } from '../tokens/token-counter.ts'
import type { CapReached } from './monthly-caps.ts'
import type { QuotaReached } from './quotas.ts'

export type AdmissionError =
  /** `element` is the index in a batch, null for a single create. */
  | {
      readonly kind: 'invalid'
      readonly element: number | null
      readonly field: string
      readonly rule: string
    }
  | { readonly kind: 'model not allowed'; readonly tier: string; readonly model: string }
  | {
      readonly kind: 'too many tokens'
      readonly tier: string
      readonly limit: number
      readonly count: TokenCount
    }
  | CapReached
  | QuotaReached

export type Admission =
  | { readonly ok: true; readonly jobs: readonly Job[] }
  | { readonly ok: false; readonly error: AdmissionError }

export interface AdmissionRules {
  /**
   * The public model names, each with the number of input tokens above which the exact count decides which model is used
   * (`gpt-auto`); infinite for the others.
   */
  readonly models: ReadonlyMap<string, number>
  /** Where callbacks may go. */
  readonly addresses: AddressRules
  readonly makeId: () => string
  readonly clock: Pick<Clock, 'nowMs'>
}

/** Counts the tokens of an element, no further than just beyond the limit. */
export type CountElement = (element: CreateElement, limit: number) => Promise<TokenCount>

/** @param single whether the one element is a single create, whose fields are named without an index */
export async function admit(
  elements: readonly CreateElement[],
  caller: { readonly account: string; readonly tier: Tier },
  rules: AdmissionRules,
  countTokens: CountElement,
  single: boolean,
): Promise<Admission> {
  const callbacks: (string | null)[] = []
  for (const [index, element] of elements.entries()) {
    const checked = checkFields(element, rules)
    if ('rule' in checked) {
      return { ok: false, error: { kind: 'invalid', element: single ? null : index, ...checked } }
    }
    callbacks.push(checked.callback && callbackText(checked.callback))
  }
  const { account, tier } = caller
  const jobs: Job[] = []
  for (const [index, element] of elements.entries()) {
    if (!tier.models.has(element.model)) {
      return { ok: false, error: { kind: 'model not allowed', tier: tier.name, model: element.model } }
    }
    const limit = tier.maxInputTokens
    let inputTokens = element.tokensAtMost
    // The upper bound is enough unless an exact count would decide something.
    if (inputTokens > Math.min(limit, rules.models.get(element.model) ?? limit)) {
      const count = await countTokens(element, limit)
      if (count.tokens > limit) {
        return { ok: false, error: { kind: 'too many tokens', tier: tier.name, limit, count } }
      }
      inputTokens = count.tokens
    }
    jobs.push({
      id: rules.makeId(),
      account,
      tier: tier.name,
      model: element.model,
      messagesJson: element.messagesJson,
      responseFormatJson: element.responseFormatJson,
      cacheTtlMs: wholeMs(element.cacheTtlS ?? CACHE_TTL_S.default),
      callbackJson: callbacks[index] ?? null,
      createdAtMs: rules.clock.nowMs(),
      inputTokens,
    })
  }
  return { ok: true, jobs }
}

/** The callback, normalised, or the first rule that a field breaks. */
function checkFields(
  { model, problem, callback }: CreateElement,
  rules: AdmissionRules,
): Problem | { readonly callback: Callback | null } {
  if (!rules.models.has(model)) {
    return { field: 'model', rule: `must be one of ${[...rules.models.keys()].join(', ')}` }
  }
  if (problem) return problem
  if (!callback) return { callback: null }
  const { headers, payloadJson } = callback
  const address = checkCallbackUrl(callback.url, rules.addresses)
  if (!address.ok) return { field: 'callback.callback_url', rule: address.rule }
  const wrong = checkCallbackHeaders(headers)
  if (wrong) return { field: `callback.callback_headers.${wrong.header}`, rule: wrong.rule }
  return { callback: { url: address.url, headers, payloadJson } }
}
