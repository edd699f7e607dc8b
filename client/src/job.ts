/**
 * What callers send and get, field for field as the interface has it, so that what its documents say holds here. The type
 * parameter `T` is that of `response_content`.
 */
import type { StandardSchemaV1 } from './standard-schema.ts'

export type Role = 'system' | 'developer' | 'assistant' | 'user'

export interface Message {
  readonly role: Role
  /** May be empty. */
  readonly content: string
}

/** The four that every server has; yours may have more. */
export type Model = 'gpt-auto' | 'gpt-5' | 'gpt-5.2' | 'gpt-5-mini' | (string & {})

/** The answer is a string. */
export interface TextFormat {
  readonly format: 'text'
  readonly schema?: never
}

/** The answer is JSON that the library's schema takes, and comes as the type that the schema makes of it. */
export interface SchemaFormat<T = unknown> {
  readonly format: 'json'
  readonly schema: StandardSchemaV1<unknown, T>
}

/** The answer is JSON: any value, or one that satisfies the JSON Schema object. */
export interface JsonFormat {
  readonly format: 'json'
  readonly schema?: JsonSchema
}

interface NotOfALibrary {
  readonly '~standard'?: never
}

/** An object written on the spot, or of whatever type somebody describes JSON Schemas by. */
export type JsonSchema = ({ readonly [keyword: string]: unknown } & NotOfALibrary) | (object & NotOfALibrary)

export type ResponseFormat<T = unknown> = TextFormat | SchemaFormat<T> | JsonFormat

export interface JobFields<F extends ResponseFormat = ResponseFormat> {
  readonly model: Model
  /** The conversation, in order; at least one message is a user's. */
  readonly messages: readonly Message[]
  readonly response_format: F
  /** Seconds that the answer is kept for identical later jobs: 180 to 3600, 300 if absent. */
  readonly message_cache_ttl?: number
}

/** For `create` and `createAndWait`. */
export interface SingleJob<F extends ResponseFormat = ResponseFormat> extends JobFields<F> {
  /** Seconds that the server waits for the answer: 30 to 120, 90 if absent. */
  readonly timeout?: number
  readonly callback?: never
}

/** For `createBatch`. */
export interface BatchJob<F extends ResponseFormat = ResponseFormat> extends JobFields<F> {
  readonly callback?: CallbackRequest
  readonly timeout?: never
}

export interface CallbackRequest {
  /** http or https address that receives the POST. */
  readonly callback_url: string
  readonly callback_headers?: Readonly<Record<string, string>>
  /** Comes back unchanged. */
  readonly callback_payload?: object
}

interface JobBase {
  readonly job_id: string
  /** Unix time in seconds. */
  readonly created_at: number
}

export interface OpenJob extends JobBase {
  readonly status: 'pending' | 'assigned'
  readonly result: null
  readonly error: null
}

export interface CompletedJob<T = unknown> extends JobBase {
  readonly status: 'completed'
  readonly result: { readonly response_content: T }
  readonly error: null
}

export interface FailedJob extends JobBase {
  readonly status: 'failed'
  readonly result: null
  readonly error: JobError
}

export type FailureCode =
  | 'timeout'
  | 'content_policy_violation'
  | 'model_error'
  | 'validation_error'
  | 'cancelled'
  | 'internal_error'
  | (string & {})

/** Why a job failed. */
export interface JobError {
  readonly code: FailureCode
  /** A sentence for people. */
  readonly message: string
  /** The HTTP status that the model's server answered with. */
  readonly upstream_status?: number
  readonly upstream_message?: string
  /** For `validation_error`: what the answer broke, one rule each. */
  readonly errors?: readonly string[]
  /** For `validation_error`: the answer as the model gave it. */
  readonly raw_text?: string
}

/** A job that has ended, once and for all. */
export type EndedJob<T = unknown> = CompletedJob<T> | FailedJob

/** What a read shows. */
export type Job<T = unknown> = OpenJob | EndedJob<T>

/** The server's wait ended before the job did: it goes on, and `wait(job_id)` waits for its end. */
export interface TimedOutJob {
  readonly status: 'timeout'
  readonly job_id: string
}

export type CreatedJob<T = unknown> = EndedJob<T> | TimedOutJob

/** What a callback carries. */
export type Callback<T = unknown, P = unknown> = EndedJob<T> & {
  /** What the job was created with; an empty object if that was nothing. */
  readonly callback_payload: P
}

interface Range {
  readonly least: number
  readonly most: number
  readonly default: number
}

/** What was used in a month. */
export interface Usage {
  /** Jobs that ended, failed ones included. */
  readonly jobs: number
  readonly failed_jobs: number
  /** Jobs that a kept answer ended, without a call. */
  readonly cache_hits: number
  /** Calls to model servers. */
  readonly calls: number
  readonly input_tokens: number
  readonly output_tokens: number
}

/** What the key may do, and what is left of it. */
export interface Me {
  readonly account: string
  readonly key_id: string
  readonly tier: string
  /** The models that the tier may use. */
  readonly models: readonly string[]
  readonly limits: {
    readonly max_batch_jobs: number
    readonly reads_per_minute: number
    readonly max_input_tokens: number
    /** Of the account in a calendar month (UTC), jobs that wait or run included; null for no end. */
    readonly max_monthly_jobs: number | null
    /** Input and output together; null for no end. */
    readonly max_monthly_tokens: number | null
    readonly body_bytes: number
    readonly batch_body_bytes: number
    readonly message_cache_ttl: Range
    readonly timeout: Range
  }
  /** Reads left in the current minute. */
  readonly reads: { readonly remaining: number; readonly resets_in_seconds: number }
  /** How long an ended job stays readable. */
  readonly retention_seconds: number
  /** Whether the account may read its jobs, but create none. */
  readonly suspended: boolean
  /** Of the account in the current month, in UTC; `resets_at` is its end, in Unix seconds. */
  readonly usage: Usage & {
    readonly month: string
    readonly resets_at: number
    readonly models: readonly (Usage & { readonly model: string })[]
  }
}
