/** What the admin API answers with, under `data` (all under `/admin/api`). Times are Unix seconds. */
import type { Caps } from './contract-operations.ts'

export type Counts = Readonly<Record<string, number>>

export interface Percentiles {
  readonly p50: number | null
  readonly p95: number | null
  readonly p99: number | null
}

/** What happened on the node since the point before; depths are as of `at`. */
export interface Point {
  readonly at: number
  readonly seconds: number
  /** By outcome: `completed`, or the code of the failure. */
  readonly jobs: Counts
  /** This and the next two, and `callbacks_owed`: null while the database does not answer. */
  readonly waiting: number | null
  readonly assigned: number | null
  /** 0 where none waits. */
  readonly oldest_age_seconds: number | null
  readonly running: number
  readonly wait_ms: Percentiles
  readonly run_ms: Percentiles
  readonly tokens: Readonly<Record<string, { readonly input: number; readonly output: number }>>
  readonly cache_hits: number
  readonly calls: Readonly<Record<string, { readonly ok: number; readonly trouble: number }>>
  readonly callbacks: {
    readonly delivered: number
    readonly failed_attempts: number
    readonly failed: number
  }
  readonly callbacks_owed: number | null
}

export interface Upstream {
  readonly name: string
  readonly running: number
  readonly waiting: number
  readonly max_concurrency: number
  /** Until when it is skipped because it kept failing; null where it is asked. */
  readonly skipped_until: number | null
}

export interface Overview {
  readonly now: number
  readonly version: string
  readonly node: string
  readonly role: string
  readonly simulated: boolean
  readonly started_at: number
  readonly jobs: {
    readonly waiting: number
    readonly assigned: number
    readonly oldest_age_seconds: number
    readonly running: number
    readonly waiters: number
  }
  readonly callbacks: {
    readonly owed: number
    readonly failed: number
    readonly late_seconds: number
    readonly under_way: { readonly first: number; readonly retry: number }
  }
  readonly upstreams: readonly Upstream[]
  readonly points: readonly Point[]
}

export type Status = 'pending' | 'assigned' | 'completed' | 'failed'
export type CallbackState = 'owed' | 'delivered' | 'failed'

export interface JobSummary {
  readonly job_id: string
  readonly account: string
  readonly tier: string
  readonly model: string
  readonly status: Status
  readonly created_at: number
  readonly claimed_at: number | null
  readonly settled_at: number | null
  readonly attempts: number
  readonly error_code: string | null
  readonly target: string | null
  readonly input_tokens: number | null
  readonly output_tokens: number | null
  readonly cache_hit: boolean
  readonly callback: CallbackState | null
}

export interface JobList {
  readonly jobs: readonly JobSummary[]
  readonly more: boolean
  /** False when the search stopped at its bound before it had seen every job. */
  readonly complete: boolean
  /** What to give as `before` to go on. */
  readonly next: string | null
}

export interface TimelineEntry {
  readonly at: number
  readonly what: 'accepted' | 'assigned' | 'call' | 'settled' | 'callback'
  readonly detail: string | null
}

export interface JobDetails extends Omit<JobSummary, 'callback'> {
  readonly response_format: 'text' | 'json' | 'json with schema'
  readonly deaths: number
  readonly timeline: readonly TimelineEntry[]
  readonly callback: CallbackDetails | null
}

export type Role = 'system' | 'developer' | 'assistant' | 'user'

export interface Message {
  readonly role: Role
  readonly content: string
}

export interface JobContent {
  readonly messages: readonly Message[]
  readonly response_format: { readonly format: 'text' | 'json'; readonly schema?: unknown }
  readonly result: { readonly response_content: unknown } | null
  readonly error: JobError | null
  readonly receipt: Receipt | null
}

export interface JobError {
  readonly code: string
  readonly message: string
  readonly upstream_status?: number
  readonly upstream_message?: string
  readonly errors?: readonly string[]
  readonly raw_text?: string
}

/** What was really sent to models, and what came back. */
export interface Receipt {
  readonly form: 'text' | 'json' | 'schema'
  readonly strict?: boolean
  readonly calls: readonly ReceiptCall[]
  readonly repair?: { readonly raw_text: string; readonly errors: readonly string[] }
}

export interface ReceiptCall {
  readonly target: string
  readonly kind: 'answer' | 'refused' | 'trouble'
  readonly status: number | null
  readonly ms: number
  /** This and the next are not in the receipts of earlier versions. */
  readonly roles?: 'native' | 'developer_as_system'
  /** Absent also where text was asked for. */
  readonly json_mode?: JsonMode
  readonly instruction?: string
}

export type JsonMode = 'json_schema_strict' | 'json_schema' | 'json_object' | 'instruction' | 'simulated'

export interface CallbackAttempt {
  readonly attempt: number
  readonly at: number
  readonly ms: number
  readonly status: number | null
  readonly error: string | null
  readonly answer: string | null
}

export interface CallbackSummary {
  readonly job_id: string
  readonly account: string
  readonly url: string
  readonly state: CallbackState
  readonly attempts: number
  readonly next_attempt_at: number | null
  readonly ended_at: number | null
  readonly last_attempt: CallbackAttempt | null
}

export interface CallbackDetails extends CallbackSummary {
  readonly job_status: string
  readonly under_way: boolean
  readonly header_names: readonly string[]
  readonly callback_payload: string
  readonly log: readonly CallbackAttempt[]
}

export interface CallbackList {
  readonly callbacks: readonly CallbackSummary[]
  readonly more: boolean
  /** As for jobs. */
  readonly complete: boolean
  readonly next: string | null
}

export interface Account extends Caps {
  readonly name: string
  readonly tier: string
  readonly keys: number
  readonly active_keys: number
  readonly secret_rotated_at: number | null
  /** Since when it may create no jobs; null where it may. */
  readonly suspended_at: number | null
}

export interface Key {
  readonly id: string
  readonly account: string
  readonly tier: string
  readonly created_at: number
  readonly expires_at: number | null
  readonly revoked_at: number | null
}

export interface NewKey {
  readonly id: string
  readonly key: string
  readonly account: string
  readonly tier: string
  readonly expires_at: number | null
}

export interface AccountList {
  /** By name. */
  readonly accounts: readonly Account[]
  readonly more: boolean
}

export interface KeyList {
  /** Newest first. */
  readonly keys: readonly Key[]
  readonly more: boolean
}

export interface SettingsInForce {
  readonly settings: Readonly<Record<string, unknown>>
  readonly file: string | null
  readonly database: string
}

export const STATUSES: readonly Status[] = ['pending', 'assigned', 'completed', 'failed']
export const CALLBACK_STATES: readonly CallbackState[] = ['failed', 'owed', 'delivered']
export const TIERS = ['user_free', 'user_go', 'user_pro', 'user_max'] as const
export const ROLES: readonly Role[] = ['system', 'developer', 'assistant', 'user']
