/**
 * From creation objects of the right shape to jobs, or to the error of the first rule that is broken: first the fields of
 * every element (400), then what the tier does not allow (403).
 */
import { type Clock, wholeMs } from '../clock.ts'
import { readSchemaOnce } from '../job/answer.ts'
import { tokensAtMost } from '../job/input-size.ts'
import type { Callback, Job, Message, ResponseFormat } from '../job/job.ts'
import {
  type BatchElement,
  CACHE_TTL_S,
  type Problem,
  problemWith,
  type SingleCreate,
} from '../job/request.ts'
import type { Tier } from '../job/tier.ts'
import { checkCallbackHeaders } from '../net/callback-headers.ts'
import { type AddressRules, checkCallbackUrl } from '../net/ssrf-guard.ts'
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
      readonly tokens: number
      /** False where counting stopped early: the job has at least this many. */
      readonly exact: boolean
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
  /** Counts tokens, and may stop at `enough`. */
  readonly countTokens: (messages: readonly Message[], enough: number) => Promise<number>
  readonly makeId: () => string
  readonly clock: Pick<Clock, 'nowMs'>
}

/** An element of a request. Its callback payload, if it has one, is JSON text so that no number loses a digit. */
export interface Element {
  readonly object: SingleCreate & Pick<BatchElement, 'callback'>
  readonly payloadJson: string | null
}

/** @param single whether the one element is a single create, whose fields are named without an index */
export async function admit(
  elements: readonly Element[],
  caller: { readonly account: string; readonly tier: Tier },
  rules: AdmissionRules,
  single: boolean,
): Promise<Admission> {
  const callbacks: (Callback | null)[] = []
  for (const [index, element] of elements.entries()) {
    const checked = checkFields(element, rules)
    if ('rule' in checked) {
      return { ok: false, error: { kind: 'invalid', element: single ? null : index, ...checked } }
    }
    callbacks.push(checked.callback)
  }
  const { account, tier } = caller
  const jobs: Job[] = []
  for (const [index, { object }] of elements.entries()) {
    if (!tier.models.has(object.model)) {
      return { ok: false, error: { kind: 'model not allowed', tier: tier.name, model: object.model } }
    }
    const limit = tier.maxInputTokens
    // Above twice the limit it does not matter by how much.
    const enough = limit * 2
    let inputTokens = tokensAtMost(object.messages)
    // The upper bound is enough unless an exact count would decide something.
    if (inputTokens > Math.min(limit, rules.models.get(object.model) ?? limit)) {
      inputTokens = await rules.countTokens(object.messages, enough)
    }
    if (inputTokens > limit) {
      const exact = inputTokens < enough
      return {
        ok: false,
        error: { kind: 'too many tokens', tier: tier.name, limit, tokens: inputTokens, exact },
      }
    }
    jobs.push({
      id: rules.makeId(),
      account,
      tier: tier.name,
      model: object.model,
      messages: object.messages,
      messagesJson: JSON.stringify(object.messages),
      responseFormat: object.response_format as ResponseFormat,
      cacheTtlMs: wholeMs(object.message_cache_ttl ?? CACHE_TTL_S.default),
      callback: callbacks[index] ?? null,
      createdAtMs: rules.clock.nowMs(),
      inputTokens,
    })
  }
  return { ok: true, jobs }
}

/** The callback, normalised, or the first rule that a field breaks. */
function checkFields(
  { object, payloadJson }: Element,
  rules: AdmissionRules,
): Problem | { readonly callback: Callback | null } {
  const { model, response_format, callback } = object
  if (!rules.models.has(model)) {
    return { field: 'model', rule: `must be one of ${[...rules.models.keys()].join(', ')}` }
  }
  const problem = problemWith(object)
  if (problem) return problem
  if (response_format.schema) {
    const read = readSchemaOnce(response_format.schema as Record<string, unknown>)
    if (!read.ok) return { field: `response_format.${read.path}`, rule: read.rule }
  }
  if (!callback) return { callback: null }
  const address = checkCallbackUrl(callback.callback_url, rules.addresses)
  if (!address.ok) return { field: 'callback.callback_url', rule: address.rule }
  const headers = callback.callback_headers ?? {}
  const wrong = checkCallbackHeaders(headers)
  if (wrong) return { field: `callback.callback_headers.${wrong.header}`, rule: wrong.rule }
  return { callback: { url: address.url, headers, payloadJson: payloadJson ?? '{}' } }
}
