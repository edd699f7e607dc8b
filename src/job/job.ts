/** Defines what a job is. docs/glossary.md explains the words. This folder uses no database or network. */
import type { Priority } from './priority.ts'

export type Status = 'pending' | 'assigned' | 'completed' | 'failed'

/** A conversation may mix all of these roles (SPEC §2.3). */
export const ROLES = ['system', 'developer', 'assistant', 'user'] as const
export type Role = (typeof ROLES)[number]

/** The content may be empty (SPEC §2.3). */
export interface Message {
  readonly role: Role
  readonly content: string
}

/** The schema was checked when the job was created (SPEC §2.2). */
export type ResponseFormat =
  | { readonly format: 'text' }
  | { readonly format: 'json'; readonly schema?: SchemaObject }

export type SchemaObject = { readonly [keyword: string]: unknown }

/**
 * This is the stored form of a callback (SPEC §2.4). The payload stays text, so that 64-bit integers and `1e400` keep every
 * digit.
 */
export interface Callback {
  readonly url: string
  readonly headers: { readonly [name: string]: string }
  readonly payloadJson: string
  readonly include?: readonly ('usage' | 'metadata')[]
  /**
   * If present, the body is an event, which contains an ID and how the job or batch ended. Otherwise, SPEC §6 defines the body.
   */
  readonly event?: CallbackEvent
  readonly traceparent?: string
}

/** In the event `response.completed`, `of` is `response`. `idPrefix` comes before the ID of the job or batch. */
export interface CallbackEvent {
  readonly of: string
  readonly idPrefix: string
  /** If absent, the end of the job determines the second part of the event's type. */
  readonly ending?: string
}

export function eventTo(url: string, event: CallbackEvent): Callback {
  return { url, headers: {}, payloadJson: 'null', event }
}

/** The URL comes first, so that it is found without reading the payload. */
export function callbackText({ url, headers, payloadJson, include, event, traceparent }: Callback): string {
  return JSON.stringify({ url, headers, payloadJson, include, event, traceparent })
}

export interface Job {
  /** The first 48 bits of this UUIDv7 are the time of creation, so jobs are stored in order of time. */
  readonly id: string
  readonly account: string
  /** This was the account's tier when the job was created. `gpt-auto` chooses from this tier's models. */
  readonly tier: string
  readonly model: string
  /**
   * Messages stay text for the store, the fingerprint and the call. A parsed conversation would take many times the memory, and
   * parsing it would block the event loop.
   */
  readonly messagesJson: string
  /**
   * The text also contains the job's options, metadata and trace, and what an API remembers of the request
   * (`response-format.ts`).
   */
  readonly responseFormatJson: string
  /** `message_cache_ttl` (SPEC §2.1) as a whole number of milliseconds; 0 if the answer is not cached. */
  readonly cacheTtlMs: number
  /** `callbackText` writes this text; null if the job has no callback. */
  readonly callbackJson: string | null
  readonly createdAtMs: number
  /** An upper bound, unless the tokens were counted. */
  readonly inputTokens: number
  readonly priority?: Priority
  /** A job that has not finished by this time fails. */
  readonly deadlineMs?: number
  /**
   * Until the job finishes, this estimate counts as its cost, in millionths of the currency; absent if the model has no price.
   */
  readonly reserved?: number
}

/** A node holds this job. Every write about the job names the attempt, so that an earlier holder cannot change anything. */
export interface ClaimedJob extends Job {
  readonly attempt: number
  /** The first crash counts if a node held the job; later crashes count only if the start of its execution was recorded. */
  readonly crashCount: number
  /**
   * True if the last crash that counts against this job counts against no other job of the same node. For a job that was
   * already a suspect, only other suspects matter.
   */
  readonly crashedAlone: boolean
  /** The state of earlier runs (`queue/execution-result.ts`); absent if no run has stored any. */
  readonly earlierJson?: string
}

/** SPEC §7 lists the causes of each code. */
export type FailureCode =
  | 'timeout'
  | 'deadline_exceeded'
  | 'content_policy_violation'
  | 'model_error'
  | 'validation_error'
  | 'answer_not_checked'
  | 'cancelled'
  | 'internal_error'

/** Callers see this error. It never contains a key or a header of an upstream. */
export interface JobError {
  readonly code: FailureCode
  readonly message: string
  readonly upstream_status?: number
  readonly upstream_message?: string
  /** Versions up to 0.2.0 did not store who cancelled a job. */
  readonly cancelled_by?: 'caller' | 'operator'
  /** A `validation_error` lists how the answer violates the schema. */
  readonly errors?: readonly string[]
  /** A `validation_error` or `answer_not_checked` has the model's text. */
  readonly raw_text?: RawText
}

/** A long text is already JSON text, because a thread has escaped it. */
export type RawText = string | { readonly json: string }

export function rawTextJson(text: RawText): string {
  return typeof text === 'string' ? JSON.stringify(text) : text.json
}

export function errorJson(error: JobError): string {
  const { raw_text, ...rest } = error
  if (raw_text === undefined) return JSON.stringify(rest)
  return `${JSON.stringify(rest).slice(0, -1)},"raw_text":${rawTextJson(raw_text)}}`
}

/** `response_content` stays JSON text, which is stored and sent unchanged. */
export type Outcome =
  | { readonly status: 'completed'; readonly contentJson: string }
  | { readonly status: 'failed'; readonly error: JobError }

/** The transaction that stores the outcome also stores the usage. */
export interface Usage {
  /** The target of the last call, as `upstream/model`; null if the last run made no call, or was stopped between calls. */
  readonly target: string | null
  /** Tokens are summed over all calls. */
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cached_input_tokens?: number
  /** Present if the answer was truncated at a length limit. Versions up to 0.3 did not store this. */
  readonly finish_reason?: 'length'
  /** The cost of all calls, in millionths of the currency; absent if the model has no price. */
  readonly cost?: number
  readonly calls: number
  readonly cache_hit: boolean
  /** True if the answer is the result of a repair. A failed job has false. */
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
