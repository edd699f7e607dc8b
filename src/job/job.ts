/** Defines a job; docs/glossary.md explains the words. This folder uses no clock, database or network. */

import type { Priority } from './priority.ts'

/** The four statuses that a read may return (SPEC §2.5). */
export type Status = 'pending' | 'assigned' | 'completed' | 'failed'

/** The roles of messages (SPEC §2.3). A conversation may mix all four. */
export const ROLES = ['system', 'developer', 'assistant', 'user'] as const
export type Role = (typeof ROLES)[number]

/** A message (SPEC §2.3). Its `content` may be empty. */
export interface Message {
  readonly role: Role
  readonly content: string
}

/**
 * The format of the answer (SPEC §2.2). `schema` is the JSON value that the caller sent, and was checked when the job was
 * created.
 */
export type ResponseFormat =
  | { readonly format: 'text' }
  | { readonly format: 'json'; readonly schema?: SchemaObject }

/** A caller's JSON Schema object, as parsed. */
export type SchemaObject = { readonly [keyword: string]: unknown }

/**
 * A callback (SPEC §2.4) in its stored form. `payloadJson` is JSON text, so that 64-bit integers and `1e400` keep every digit.
 */
export interface Callback {
  readonly url: string
  readonly headers: { readonly [name: string]: string }
  readonly payloadJson: string
  /** What else the body contains about the job (`job-record.ts`); absent for nothing. */
  readonly include?: readonly ('usage' | 'metadata')[]
  /** Makes the body an event, which contains only the job's ID and ending; absent for the body of SPEC §6. */
  readonly event?: CallbackEvent
  /** The trace to which the job belongs; absent for none. */
  readonly traceparent?: string
}

/**
 * `of` is the first part of the event's type, such as `response` in `response.completed`. `idPrefix` comes before the job ID.
 */
export interface CallbackEvent {
  readonly of: string
  readonly idPrefix: string
  /** The rest of the type; absent if the ending of the job determines it. */
  readonly ending?: string
}

/** A callback that reports only what has finished, and how. */
export function eventTo(url: string, event: CallbackEvent): Callback {
  return { url, headers: {}, payloadJson: 'null', event }
}

/** The stored text of a callback. The URL comes first, so that the payload need not be read to find it. */
export function callbackText({ url, headers, payloadJson, include, event, traceparent }: Callback): string {
  return JSON.stringify({ url, headers, payloadJson, include, event, traceparent })
}

/** A job with everything that its execution needs. */
export interface Job {
  /** UUIDv7: its first 48 bits are the time of creation, so jobs are stored in order of time. */
  readonly id: string
  readonly account: string
  /** The account's tier when the job was created; `gpt-auto` chooses from this tier's models. */
  readonly tier: string
  /** The public model name in the request. */
  readonly model: string
  /**
   * The messages as JSON text. It is written once and used for the store, the fingerprint and the call. A parsed conversation
   * would take many times the memory, and parsing it would block the event loop.
   */
  readonly messagesJson: string
  /**
   * `response_format` as JSON text. It also contains the job's options, metadata and trace, and what an API remembers of the
   * request; `response-format.ts` separates them.
   */
  readonly responseFormatJson: string
  /** How long the answer is cached for identical jobs (SPEC §2.1 `message_cache_ttl`), in whole milliseconds; 0: not at all. */
  readonly cacheTtlMs: number
  /** The text from `callbackText`; null if the job has no callback. */
  readonly callbackJson: string | null
  readonly createdAtMs: number
  /** The number of input tokens: counted, or an upper bound. */
  readonly inputTokens: number
  /** Absent for `normal`. */
  readonly priority?: Priority
  /** If the job has not finished by this time, it fails; absent for no deadline. */
  readonly deadlineMs?: number
  /** The maximum cost in millionths of the currency, until the real cost is known; absent if the model has no price. */
  readonly reserved?: number
}

/** A job that a node holds. Every write about it names the attempt, so that an earlier holder cannot change anything. */
export interface ClaimedJob extends Job {
  /** 1 for the first claim of the job. Each later claim adds 1. */
  readonly attempt: number
  /**
   * How many crashes count against the job: the first one if a node held the job, later ones only if its start was recorded.
   */
  readonly crashCount: number
  /**
   * Whether the last crash that counted against the job counted against no other job of its node. If the job was already a
   * suspect, only other suspects matter.
   */
  readonly crashedAlone: boolean
  /** The state of earlier runs (`queue/execution-result.ts`); absent if no run has stored any. */
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
  /** The HTTP status of the upstream's response, if there was one. */
  readonly upstream_status?: number
  /** The upstream's own message, truncated to a few hundred characters. */
  readonly upstream_message?: string
  /** For `cancelled`: who cancelled it. Versions up to 0.2.0 did not store it. */
  readonly cancelled_by?: 'caller' | 'operator'
  /** For `validation_error`: how the answer violates the schema. */
  readonly errors?: readonly string[]
  /** For `validation_error` and `answer_not_checked`: the model's text. */
  readonly raw_text?: RawText
}

/** A model's text. A long one is JSON text, because a thread has already escaped it. */
export type RawText = string | { readonly json: string }

export function rawTextJson(text: RawText): string {
  return typeof text === 'string' ? JSON.stringify(text) : text.json
}

/** The error in the form in which it is stored and sent. */
export function errorJson(error: JobError): string {
  const { raw_text, ...rest } = error
  if (raw_text === undefined) return JSON.stringify(rest)
  return `${JSON.stringify(rest).slice(0, -1)},"raw_text":${rawTextJson(raw_text)}}`
}

/** How an execution ended. `contentJson` is `response_content` as JSON text, which is stored and sent unchanged. */
export type Outcome =
  | { readonly status: 'completed'; readonly contentJson: string }
  | { readonly status: 'failed'; readonly error: JobError }

/** The usage of a job over all runs. It is stored in the same transaction as the outcome. */
export interface Usage {
  /** The target of the last call, as `upstream/model`; null if the last run made no call, or was stopped between calls. */
  readonly target: string | null
  /** Tokens as upstreams counted them, summed over all calls. */
  readonly input_tokens: number
  readonly output_tokens: number
  /** How many of the input tokens the upstream had cached; absent for none. */
  readonly cached_input_tokens?: number
  /** Present if the answer was truncated at a length limit. Versions up to 0.3 did not store it. */
  readonly finish_reason?: 'length'
  /** The cost of all calls, in millionths of the currency; absent if the model has no price. */
  readonly cost?: number
  /** Calls to upstreams, including failed ones. */
  readonly calls: number
  readonly cache_hit: boolean
  /** Whether the answer is the result of a repair. False for a failed job. */
  readonly repaired: boolean
}

/** The usage of a job that finished without a call. */
export const NO_USAGE: Usage = {
  target: null,
  input_tokens: 0,
  output_tokens: 0,
  calls: 0,
  cache_hit: false,
  repaired: false,
}
