/**
 * From creation objects of the right shape to jobs, or to the one refusal that comes first: the fields of every element
 * (400), then what the tier may not do (403).
 */
import { wholeMs } from '../clock.ts'
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
import { type Tier, tierAllows } from '../job/tier.ts'
import type { CapReached } from './monthly-caps.ts'

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
      /** False where counting stopped early: there are at least so many. */
      readonly exact: boolean
    }
  | CapReached

export type Admission =
  | { readonly ok: true; readonly jobs: readonly Job[] }
  | { readonly ok: false; readonly refusal: AdmissionError }

export interface AdmissionRules {
  /** The public model names, each with the input sizes at which its choice of model changes (`gpt-auto`). */
  readonly models: ReadonlyMap<string, readonly number[]>
  /** Checks and normalises a callback's address and headers. */
  readonly checkCallback: (url: string, headers: Callback['headers']) => Problem | { readonly url: string }
  /** Counts tokens, no further than `enough`. */
  readonly countTokens: (messages: readonly Message[], enough: number) => Promise<number>
  readonly makeId: () => string
  readonly nowMs: () => number
}

/** An element of a request; its payload, if any, comes as JSON text so that no number loses a digit. */
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
    if (!checked.ok) {
      return { ok: false, refusal: { kind: 'invalid', element: single ? null : index, ...checked.problem } }
    }
    callbacks.push(checked.callback)
  }
  const { account, tier } = caller
  const jobs: Job[] = []
  for (const [index, { object }] of elements.entries()) {
    if (!tierAllows(tier, object.model)) {
      return { ok: false, refusal: { kind: 'model not allowed', tier: tier.name, model: object.model } }
    }
    const size = measure(object.messages, tier, rules.models.get(object.model) ?? [], rules)
    const inputTokens = typeof size === 'number' ? size : await size
    if (inputTokens > tier.maxInputTokens) {
      const exact = inputTokens < enoughFor(tier)
      const limit = tier.maxInputTokens
      return {
        ok: false,
        refusal: { kind: 'too many tokens', tier: tier.name, limit, tokens: inputTokens, exact },
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
      createdAtMs: rules.nowMs(),
      inputTokens,
    })
  }
  return { ok: true, jobs }
}

type Checked =
  | { readonly ok: true; readonly callback: Callback | null }
  | { readonly ok: false; readonly problem: Problem }

function checkFields({ object, payloadJson }: Element, rules: AdmissionRules): Checked {
  const refuse = (field: string, rule: string): Checked => ({ ok: false, problem: { field, rule } })
  if (!rules.models.has(object.model)) {
    return refuse('model', `must be one of ${[...rules.models.keys()].join(', ')}`)
  }
  const problem = problemWith(object)
  if (problem) return { ok: false, problem }
  const { schema } = object.response_format
  if (schema) {
    const read = readSchemaOnce(schema as Record<string, unknown>)
    if (!read.ok) return refuse(`response_format.${read.path}`, read.rule)
  }
  const { callback } = object
  if (!callback) return { ok: true, callback: null }
  const headers = callback.callback_headers ?? {}
  const checked = rules.checkCallback(callback.callback_url, headers)
  if ('rule' in checked) return refuse(`callback.${checked.field}`, checked.rule)
  return { ok: true, callback: { url: checked.url, headers, payloadJson: payloadJson ?? '{}' } }
}

/** Beyond twice the limit it no longer matters by how much. */
function enoughFor(tier: Tier): number {
  return tier.maxInputTokens * 2
}

/** The exact count where an exact one decides anything, else the bound by bytes. */
function measure(
  messages: readonly Message[],
  tier: Tier,
  steps: readonly number[],
  rules: AdmissionRules,
): number | Promise<number> {
  const bound = tokensAtMost(messages)
  const decides = bound > tier.maxInputTokens || steps.some((step) => bound > step)
  return decides ? rules.countTokens(messages, enoughFor(tier)) : bound
}
