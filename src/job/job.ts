/** What a job is. docs/glossary.md explains the words. This folder uses no clock, database or network. */

import type { Priority } from './priority.ts'

/** The statuses that a read may return (SPEC §2.5). */
export type Status = 'pending' | 'assigned' | 'completed' | 'failed'

/** The roles of messages (SPEC §2.3). A conversation may mix all of them. */
export const ROLES = ['system', 'developer', 'assistant', 'user'] as const
export type Role = (typeof ROLES)[number]

/** SPEC §2.3. The content may be empty. */
export interface Message {
  readonly role: Role
  readonly content: string
}

/** The format of the answer (SPEC §2.2). The schema is what the caller sent; it was checked when the job was created. */
export type ResponseFormat =
  | { readonly format: 'text' }
  | { readonly format: 'json'; readonly schema?: SchemaObject }

export type SchemaObject = { readonly [keyword: string]: unknown }

/**
 * A callback (SPEC §2.4) in its stored form. `payloadJson` is JSON text, so that 64-bit integers and `1e400` keep every digit.
 */
export interface Callback {
  readonly url: string
  readonly headers: { readonly [name: string]: string }
  readonly payloadJson: string
  /** What the body contains in addition (`job-record.ts`); absent for nothing. */
  readonly include?: readonly ('usage' | 'metadata')[]
  /**
   * If present, the body is an event, which contains only the job's ID and how the job ended. Otherwise it is the body of SPEC
   * §6.
   */
  readonly event?: CallbackEvent
  /** The W3C trace to which the job belongs; absent for none. */
  readonly traceparent?: string
}

/**
 * `of` is the first part of the event's type, such as `response` in `response.completed`. `idPrefix` comes before the job ID.
 */
export interface CallbackEvent {
  readonly of: string
  readonly idPrefix: string
  /** The rest of the event's type; absent if the end of the job determines it. */
  readonly ending?: string
}

/** Returns a callback whose body is an event without a result. */
export function eventTo(url: string, event: CallbackEvent): Callback {
  return { url, headers: {}, payloadJson: 'null', event }
}

/** Returns the stored text of a callback. The URL comes first, so that it is found without reading the payload. */
export function callbackText({ url, headers, payloadJson, include, event, traceparent }: Callback): string {
  return JSON.stringify({ url, headers, payloadJson, include, event, traceparent })
}

export interface Job {
  /** UUIDv7: its first 48 bits are the time of creation, so jobs are stored in order of time. */
  readonly id: string
  readonly account: string
  /** The account's tier when the job was created. `gpt-auto` chooses from this tier's models. */
  readonly tier: string
  readonly model: string
  /**
   * The messages as JSON text, which is written once and used for the store, the fingerprint and the call. A parsed
   * conversation would take many times the memory, and parsing it would block the event loop.
   */
  readonly messagesJson: string
  /**
   * `response_format` as JSON text. It also contains the job's options, metadata and trace, and what an API remembers of the
   * request; `response-format.ts` separates them.
   */
  readonly responseFormatJson: string
  /**
   * How long the answer is cached for identical jobs (SPEC §2.1 `message_cache_ttl`), in whole milliseconds; 0 for not at all.
   */
  readonly cacheTtlMs: number
  /** The text from `callbackText`; null if the job has no callback. */
  readonly callbackJson: string | null
  readonly createdAtMs: number
  /** Counted, or an upper bound. */
  readonly inputTokens: number
  /** Absent for `normal`. */
  readonly priority?: Priority
  /** A job that has not finished by this time fails; absent for no deadline. */
  readonly deadlineMs?: number
  /**
   * The maximum cost in millionths of the currency; absent if the model has no price. It counts until the job finishes and the
   * real cost is known.
   */
  readonly reserved?: number
}

/** A job that a node holds. Every write about the job names the attempt, so that an earlier holder cannot change anything. */
export interface ClaimedJob extends Job {
  /** The number of claims of the job, including this one. */
  readonly attempt: number
  /**
   * How many crashes count against the job. The first one counts if a node held the job, later ones only if the start of the
   * job was recorded.
   */
  readonly crashCount: number
  /**
   * True if the last crash that counts against the job counts against no other job of its node. If the job was already a
   * suspect, only other suspects matter.
   */
  readonly crashedAlone: boolean
  /** What is stored about earlier runs (`queue/earlier-runs.ts`); absent if nothing is. */
  readonly earlierJson?: string
}

/** Why a job failed: the `code` of its `error`. SPEC §7 lists the causes. */
export type FailureCode =
  | 'timeout'
  | 'deadline_exceeded'
  | 'content_policy_violation'
  | 'model_error'
  | 'validation_error'
  | 'answer_not_checked'
  | 'cancelled'
  | 'internal_error'

/** The `error` of a failed job, as callers see it. It never contains a key or a header of an upstream. */
export interface JobError {
  readonly code: FailureCode
  /** A full sentence for people. */
  readonly message: string
  /** The HTTP status of the upstream's response; absent if there was none. */
  readonly upstream_status?: number
  /** The upstream's message, truncated to a few hundred characters. */
  readonly upstream_message?: string
  /** Only for `cancelled`. Versions up to 0.2.0 did not store it. */
  readonly cancelled_by?: 'caller' | 'operator'
  /** Only for `validation_error`: how the answer violates the schema. */
  readonly errors?: readonly string[]
  /** Only for `validation_error` and `answer_not_checked`: the model's text. */
  readonly raw_text?: RawText
}

/** A model's text. A long text is already JSON text, because a thread has escaped it. */
export type RawText = string | { readonly json: string }

export function rawTextJson(text: RawText): string {
  return typeof text === 'string' ? JSON.stringify(text) : text.json
}

/** Returns the error as it is stored and sent. */
export function errorJson(error: JobError): string {
  const { raw_text, ...rest } = error
  if (raw_text === undefined) return JSON.stringify(rest)
  return `${JSON.stringify(rest).slice(0, -1)},"raw_text":${rawTextJson(raw_text)}}`
}

/** How an execution ended. `contentJson` is `response_content` as JSON text, which is stored and sent unchanged. */
export type Outcome =
  | { readonly status: 'completed'; readonly contentJson: string }
  | { readonly status: 'failed'; readonly error: JobError }

/** The usage of a job over all runs. The transaction that stores the outcome also stores it. */
export interface Usage {
  /** The target of the last call, as `upstream/model`; null if the last run made no call, or was stopped between calls. */
  readonly target: string | null
  /** Tokens of all calls, as upstreams counted them. */
  readonly input_tokens: number
  readonly output_tokens: number
  /** Input tokens that the upstream had cached; absent for none. */
  readonly cached_input_tokens?: number
  /** Present if the answer was truncated at a length limit. Versions up to 0.3 did not store it. */
  readonly finish_reason?: 'length'
  /** The cost of all calls, in millionths of the currency; absent if the model has no price. */
  readonly cost?: number
  /** Calls to upstreams, including failed ones. */
  readonly calls: number
  readonly cache_hit: boolean
  /** True if the answer is the result of a repair. False for a failed job. */
  readonly repaired: boolean
}

export const NO_USAGE: Usage = {
  target: null,
  input_tokens: 0,
  output_tokens: 0,
  calls: 0,
  cache_hit: false,
  repaired: false,
}
