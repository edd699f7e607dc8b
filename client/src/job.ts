/**
 * Defines the objects of the HTTP API. Their fields have the same names as in its documentation. The type parameter `T` is the
 * type of `response_content`.
 */
import type { StandardSchemaV1 } from './standard-schema.ts'

export type Role = 'system' | 'developer' | 'assistant' | 'user'

export interface Message {
  readonly role: Role
  /** The text can be empty. */
  readonly content: string
}

/** These are the default models. A server may lack some of them, and may have other models. */
export type Model = 'gpt-auto' | 'gpt-5' | 'gpt-5.2' | 'gpt-5-mini' | (string & {})

/** The answer is a string. */
export interface TextFormat {
  readonly format: 'text'
  readonly schema?: never
}

/** The answer is JSON that is valid for the schema of a library. Its type is the output type of the schema. */
export interface SchemaFormat<T = unknown> {
  readonly format: 'json'
  readonly schema: StandardSchemaV1<unknown, T>
}

/** The answer is JSON: any value, or a value that satisfies the JSON Schema. */
export interface JsonFormat {
  readonly format: 'json'
  readonly schema?: JsonSchema
}

interface NotOfALibrary {
  readonly '~standard'?: never
}

/** Accepts a JSON Schema as an object literal or an object of any type. */
export type JsonSchema = ({ readonly [keyword: string]: unknown } & NotOfALibrary) | (object & NotOfALibrary)

export type ResponseFormat<T = unknown> = TextFormat | SchemaFormat<T> | JsonFormat

/** These options of the model determine how it writes its answer. */
export interface Options {
  /** Ranges from 0 to 2. With 0, answers vary least. Above 1, they vary more than usual. */
  readonly temperature?: number
  /** Must be above 0 and at most 1. */
  readonly top_p?: number
  /** Limits the tokens of the answer. Text is truncated at this length. Truncated JSON makes the job fail. */
  readonly max_tokens?: number
  /** Lists up to 4 texts. The answer ends before the first of them. */
  readonly stop?: string | readonly string[]
  readonly seed?: number
  /** Ranges from -2 to 2. */
  readonly presence_penalty?: number
  /** Ranges from -2 to 2. */
  readonly frequency_penalty?: number
  readonly reasoning_effort?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max'
  readonly verbosity?: 'low' | 'medium' | 'high'
}

export interface JobFields<F extends ResponseFormat = ResponseFormat> {
  readonly model: Model
  /** Contains the conversation, in order. At least one message must have the role `user`. */
  readonly messages: readonly Message[]
  readonly response_format: F
  readonly options?: Options
  /** Has up to 16 keys of at most 64 characters, with values of at most 512 characters. Models do not see metadata. */
  readonly metadata?: Readonly<Record<string, string>>
  /** Jobs of a higher priority start first. If absent, `normal` applies. The tier determines which values are allowed. */
  readonly priority?: 'high' | 'normal' | 'low'
  /**
   * The job's deadline is this many seconds after its creation: 1 to 2592000. If the job has not finished by then, it fails
   * with `deadline_exceeded`.
   */
  readonly complete_within?: number
  /** The answer is cached for identical jobs for this many seconds: 180 to 3600, 300 if absent. */
  readonly message_cache_ttl?: number
}

/** `create` and `createAndWait` accept jobs in this form. */
export interface SingleJob<F extends ResponseFormat = ResponseFormat> extends JobFields<F> {
  /** The server waits for the answer for this many seconds: 30 to 120, 90 if absent. */
  readonly timeout?: number
  readonly callback?: never
}

/** `createBatch` accepts jobs in this form. */
export interface BatchJob<F extends ResponseFormat = ResponseFormat> extends JobFields<F> {
  readonly callback?: CallbackRequest
  readonly timeout?: never
}

export interface CallbackRequest {
  /** The callback is sent to this http or https URL. */
  readonly callback_url: string
  readonly callback_headers?: Readonly<Record<string, string>>
  /** The callback contains this payload unchanged. */
  readonly callback_payload?: object
  readonly include?: readonly Include[]
}

/** Reports what a job used. It is null until the job has finished. */
export interface JobUsage {
  /** Names the model that answered, as its server calls it. Null if no model answered, or for a cached response. */
  readonly model: string | null
  /** Counts the input tokens of all calls, as reported by the model server. */
  readonly input_tokens: number
  /** Counts the part of the input tokens that the model server had cached. */
  readonly cached_input_tokens: number
  readonly output_tokens: number
  /** The calls cost this much, in millionths of the currency. Absent if the model has no price. */
  readonly cost?: number
  /** Counts the calls to model servers, including failed ones. */
  readonly calls: number
  readonly cache_hit: boolean
  /** True if the model had to correct an answer that was in the wrong format. */
  readonly repaired: boolean
  /** Is `length` if the answer was truncated at a length limit, and null if there is no answer. */
  readonly finish_reason: 'stop' | 'length' | null
}

/** A response or a callback can contain this in addition to the state and the answer of the job. */
export type Include = 'usage' | 'metadata'

interface JobBase {
  readonly job_id: string
  /** Unix time in seconds. */
  readonly created_at: number
  /** Present if `include` requests it. */
  readonly usage?: JobUsage | null
  /** Present if `include` requests it. */
  readonly metadata?: Readonly<Record<string, string>>
}

export interface OpenJob extends JobBase {
  readonly status: 'pending' | 'assigned'
  /** The job is queued until the monthly budget of its account has room for it. Present only if `include` contains `usage`. */
  readonly waiting_for?: 'budget'
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
  | 'deadline_exceeded'
  | 'content_policy_violation'
  | 'model_error'
  | 'validation_error'
  | 'answer_not_checked'
  | 'cancelled'
  | 'internal_error'
  | (string & {})

export interface JobError {
  readonly code: FailureCode
  /** Explains the error in a sentence for users. */
  readonly message: string
  /** Contains the HTTP status of the model server's response. Absent without a response. */
  readonly upstream_status?: number
  readonly upstream_message?: string
  /** Names who cancelled the job, for the code `cancelled`. Absent if a server of an earlier version did. */
  readonly cancelled_by?: 'caller' | 'operator' | (string & {})
  /** Explains how the answer violates the schema, for the code `validation_error`. */
  readonly errors?: readonly string[]
  /** Contains the answer as the model wrote it, for the codes `validation_error` and `answer_not_checked`. */
  readonly raw_text?: string
}

/** A finished job does not change any more. */
export type EndedJob<T = unknown> = CompletedJob<T> | FailedJob

/** `retrieve` returns jobs in this form. */
export type Job<T = unknown> = OpenJob | EndedJob<T>

/** `owed` means that the callback is not delivered yet. */
export type CallbackState = 'owed' | 'delivered' | 'failed'

interface SummaryBase extends JobBase {
  readonly model: string
  readonly callback: CallbackState | null
}

export interface OpenSummary extends SummaryBase {
  readonly status: 'pending' | 'assigned'
  readonly ended_at: null
  readonly error_code: null
}

export interface CompletedSummary extends SummaryBase {
  readonly status: 'completed'
  /** Unix time in seconds. */
  readonly ended_at: number
  readonly error_code: null
}

export interface FailedSummary extends SummaryBase {
  readonly status: 'failed'
  /** Unix time in seconds. */
  readonly ended_at: number
  readonly error_code: FailureCode
}

/** `list` returns jobs without their messages and their answers. */
export type JobSummary = OpenSummary | CompletedSummary | FailedSummary

/** A page lists the account's jobs, newest first. */
export interface JobPage {
  readonly jobs: readonly JobSummary[]
  /**
   * `next` is the `after` for the next page, and null on the last page. A page can be short or empty although more pages
   * follow.
   */
  readonly next: string | null
}

export interface DeletedJob {
  readonly job_id: string
  readonly deleted: true
}

/** The job did not finish within its `timeout`. It continues on the server, and `wait(job_id)` waits until it has finished. */
export interface TimedOutJob {
  readonly status: 'timeout'
  readonly job_id: string
}

export type CreatedJob<T = unknown> = EndedJob<T> | TimedOutJob

export type Callback<T = unknown, P = unknown> = EndedJob<T> & {
  /** The job was created with this payload. It is an empty object if the job had none. */
  readonly callback_payload: P
}

interface Range {
  readonly least: number
  readonly most: number
  readonly default: number
}

export interface Usage {
  /** Counts finished jobs, including failed ones. */
  readonly jobs: number
  readonly failed_jobs: number
  /** Counts jobs that a cached response completed, without a call. */
  readonly cache_hits: number
  /** Counts calls to model servers. */
  readonly calls: number
  readonly input_tokens: number
  readonly output_tokens: number
  /** The calls cost this much, in millionths of the currency. Absent if the models have no price. */
  readonly cost?: number
}

/** Reports the account, limits and usage of the API key. */
export interface Me {
  readonly account: string
  readonly key_id: string
  readonly tier: string
  /** Lists the models that the tier may use. */
  readonly models: readonly string[]
  readonly limits: {
    readonly max_batch_jobs: number
    readonly reads_per_minute: number
    /** The account may create this many jobs per minute. Null means no limit. Absent from servers up to version 0.3. */
    readonly creates_per_minute?: number | null
    readonly max_input_tokens: number
    /** Limits the tokens of an answer. Null means no limit. Absent from servers up to version 0.3. */
    readonly max_output_tokens?: number | null
    /** Lists the values of `priority` that the tier may use. Absent from servers up to version 0.3. */
    readonly priorities?: readonly string[]
    /** Limits the jobs of the account per calendar month (UTC), including unfinished ones. Null means no limit. */
    readonly max_monthly_jobs: number | null
    /** Limits the tokens per calendar month, input and output together. Null means no limit. */
    readonly max_monthly_tokens: number | null
    /** Limits the cost per calendar month, in the `currency`. Null means no limit. Absent without a currency. */
    readonly max_monthly_cost?: number | null
    /**
     * Limits how many jobs of the account may be queued or running at the same time. Null means no limit. Absent from servers
     * up to version 0.2.
     */
    readonly max_open_jobs?: number | null
    /** The account may store this many bytes. Null means no limit. Absent from servers up to version 0.2. */
    readonly max_stored_bytes?: number | null
    readonly body_bytes: number
    readonly batch_body_bytes: number
    readonly message_cache_ttl: Range
    readonly timeout: Range
  }
  /** Reports how many reads remain in the current minute. */
  readonly reads: { readonly remaining: number; readonly resets_in_seconds: number }
  /** Counts the queued and running jobs of the account. Absent from servers up to version 0.2. */
  readonly open_jobs?: number
  /** Counts the bytes that the account stores. Absent from servers up to version 0.2. */
  readonly stored_bytes?: number
  /** Names the currency of costs. Absent if none is configured. */
  readonly currency?: string
  /** The unfinished jobs may cost at most this much, in millionths of the currency. */
  readonly reserved_cost?: number
  /** A finished job can be read for this many seconds. */
  readonly retention_seconds: number
  /** An idempotency key is remembered for this many seconds. Absent from servers up to version 0.4. */
  readonly idempotency_seconds?: number
  /** A suspended account can read its jobs, but cannot create jobs. */
  readonly suspended: boolean
  /** Reports the usage in the current month (UTC). `resets_at` is the end of the month in Unix seconds. */
  readonly usage: Usage & {
    readonly month: string
    readonly resets_at: number
    readonly models: readonly (Usage & { readonly model: string })[]
  }
}
