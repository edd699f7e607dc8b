/**
 * Turns creation objects of the right shape into jobs, or returns the error of the first violated rule: first the fields of
 * every element (400), then the limits of the tier (403).
 */
import { type Clock, wholeMs } from '../clock.ts'
import type { CreateElement, Problem } from '../job/create-body.ts'
import { CACHE_TTL_S } from '../job/field-bounds.ts'
import { type Callback, callbackText, type Job } from '../job/job.ts'
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
  /** Where callbacks may be sent. */
  readonly addresses: AddressRules
  readonly makeId: () => string
  readonly clock: Pick<Clock, 'nowMs'>
}

const DEFAULT_CACHE_TTL_MS = wholeMs(CACHE_TTL_S.default)

/** Counts the tokens of an element, until just above the limit. */
export type CountElement = (element: CreateElement, limit: number) => Promise<TokenCount>

/** The count of each element that must be counted. */
type Counts = ReadonlyMap<CreateElement, TokenCount>

type AdmittedCaller = { readonly account: string; readonly tier: Tier }

const NO_COUNTS: Counts = new Map()

/**
 * Returns a promise only if it has to count. @param single whether the one element is a single create, whose fields are named
 * without an index
 */
export function admit(
  elements: readonly CreateElement[],
  caller: AdmittedCaller,
  rules: AdmissionRules,
  countTokens: CountElement,
  single: boolean,
): Admission | Promise<Admission> {
  const callbacks: (string | null)[] = []
  let mustCount = false
  for (const element of elements) {
    const checked = checkFields(element, rules)
    if (checked !== null && 'rule' in checked) {
      const index = single ? null : callbacks.length
      return { ok: false, error: { kind: 'invalid', element: index, ...checked } }
    }
    callbacks.push(checked && callbackText(checked))
    mustCount ||= element.tokensAtMost > boundOf(element, caller.tier, rules)
  }
  if (!mustCount) return admitCounted(elements, callbacks, caller, rules, NO_COUNTS)
  return countAll(elements, caller.tier, rules, countTokens).then((counts) =>
    admitCounted(elements, callbacks, caller, rules, counts),
  )
}

/** An input whose upper bound is above this must be counted, because the exact count matters. */
function boundOf({ model }: CreateElement, { maxInputTokens }: Tier, { models }: AdmissionRules): number {
  return Math.min(maxInputTokens, models.get(model) ?? maxInputTokens)
}

/** Counts in order, up to the first element that the tier does not allow. */
async function countAll(
  elements: readonly CreateElement[],
  tier: Tier,
  rules: AdmissionRules,
  countTokens: CountElement,
): Promise<Counts> {
  const counts = new Map<CreateElement, TokenCount>()
  for (const element of elements) {
    if (!tier.models.has(element.model)) break
    if (element.tokensAtMost <= boundOf(element, tier, rules)) continue
    const count = await countTokens(element, tier.maxInputTokens)
    counts.set(element, count)
    if (count.tokens > tier.maxInputTokens) break
  }
  return counts
}

function admitCounted(
  elements: readonly CreateElement[],
  callbacks: readonly (string | null)[],
  { account, tier }: AdmittedCaller,
  rules: AdmissionRules,
  counts: Counts,
): Admission {
  const { name, models, maxInputTokens: limit } = tier
  const jobs: Job[] = []
  for (const element of elements) {
    const { model, messagesJson, responseFormatJson, cacheTtlS } = element
    if (!models.has(model)) return { ok: false, error: { kind: 'model not allowed', tier: name, model } }
    const count = counts.get(element)
    if (count !== undefined && count.tokens > limit) {
      return { ok: false, error: { kind: 'too many tokens', tier: name, limit, count } }
    }
    jobs.push({
      id: rules.makeId(),
      account,
      tier: name,
      model,
      messagesJson,
      responseFormatJson,
      cacheTtlMs: cacheTtlS === undefined ? DEFAULT_CACHE_TTL_MS : wholeMs(cacheTtlS),
      callbackJson: callbacks[jobs.length] ?? null,
      createdAtMs: rules.clock.nowMs(),
      inputTokens: count?.tokens ?? element.tokensAtMost,
    })
  }
  return { ok: true, jobs }
}

/** The normalized callback, if there is one; or the first rule that a field violates. */
function checkFields(
  { model, problem, callback }: CreateElement,
  rules: AdmissionRules,
): Problem | Callback | null {
  if (!rules.models.has(model)) {
    return { field: 'model', rule: `must be one of ${[...rules.models.keys()].join(', ')}` }
  }
  if (problem) return problem
  if (!callback) return null
  const { headers, payloadJson } = callback
  const address = checkCallbackUrl(callback.url, rules.addresses)
  if (!address.ok) return { field: 'callback.callback_url', rule: address.rule }
  const wrong = checkCallbackHeaders(headers)
  if (wrong) return { field: `callback.callback_headers.${wrong.header}`, rule: wrong.rule }
  return { url: address.url, headers, payloadJson }
}
