/**
 * The types of the admin API's responses: the `data` of each route below `/admin/api`. Times are Unix seconds. Imports from the
 * server are type-only, so they are stripped before a browser loads this module.
 */
import type { CallbackView as CallbackSummary } from '../../admin/callback-view.ts'
import type { JobSummaryView as JobSummary } from '../../admin/job-view.ts'
import type { MetricSample } from '../../admin/metric-sample.ts'
import type { Overview as Now } from '../../admin/overview.ts'
import type { Caps } from './contract-usage.ts'

export type {
  AttemptView as CallbackAttempt,
  CallbackDetailsView as CallbackDetails,
} from '../../admin/callback-view.ts'
export type { JobDetailsView as JobDetails, TimelineEntry } from '../../admin/job-view.ts'
export type { PercentilesView as Percentiles } from '../../admin/metric-sample.ts'
export type { HeldBackView as HeldBack, UpstreamView as Upstream } from '../../admin/overview.ts'
export type { CallbackSummary, JobSummary, MetricSample }

/** Includes the metric samples of the last minutes, oldest first. */
export interface Overview extends Now {
  readonly points: readonly MetricSample[]
}

export type Status = 'pending' | 'assigned' | 'completed' | 'failed'
export type CallbackState = 'owed' | 'delivered' | 'failed'

export interface JobList {
  readonly jobs: readonly JobSummary[]
  readonly more: boolean
  /** False if the search stopped at its limit before it had examined every job. */
  readonly complete: boolean
  /** Pass this as `before` to get the next page. */
  readonly next: string | null
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

/** What was sent to models, and what they returned. */
export interface Receipt {
  readonly form: 'text' | 'json' | 'schema'
  readonly strict?: boolean
  readonly ignored?: readonly string[]
  readonly calls: readonly ReceiptCall[]
  readonly repair?: { readonly raw_text: string; readonly errors: readonly string[] }
}

export interface ReceiptCall {
  readonly target: string
  readonly kind: 'answer' | 'refused' | 'trouble'
  readonly status: number | null
  readonly ms: number
  /** Receipts of earlier versions lack `roles` and `json_mode`. */
  readonly roles?: 'native' | 'developer_as_system' | 'merged_system' | 'no_system'
  /** Also absent if the job requested text. */
  readonly json_mode?: JsonMode
  readonly instruction?: string
  /** Present if the answer was cut off at a length limit. */
  readonly finish_reason?: 'length'
  /** What differs from the previous call, whose format the server rejected. */
  readonly other_format?: 'roles' | 'json_mode' | 'both'
}

export type JsonMode = 'json_schema_strict' | 'json_schema' | 'json_object' | 'instruction' | 'simulated'

export interface CallbackList {
  readonly callbacks: readonly CallbackSummary[]
  readonly more: boolean
  /** As for jobs. */
  readonly complete: boolean
  readonly next: string | null
}

export interface Account extends Caps {
  readonly open_jobs: number
  readonly stored_bytes: number
  readonly name: string
  readonly tier: string
  readonly keys: number
  readonly active_keys: number
  readonly secret_rotated_at: number | null
  /** When it was suspended; null if it is not suspended. */
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

export interface AccountDeleted {
  readonly jobs: number
  readonly cancelled: number
}

/** An entry of the audit log. */
export interface AuditEntry {
  readonly id: string
  readonly at: number
  readonly who: string
  readonly what: string
  readonly account: string | null
  /** The job ID or key ID. */
  readonly target: string | null
  readonly details: Readonly<Record<string, unknown>>
  /** Null while the action is in progress, and permanently if its process was killed. */
  readonly outcome: string | null
}

export interface AuditPageData {
  /** Newest first. */
  readonly acts: readonly AuditEntry[]
  readonly more: boolean
  /** Pass this as `before` to get the next page. */
  readonly next: string | null
}

export interface EffectiveSettings {
  readonly settings: Readonly<Record<string, unknown>>
  readonly file: string | null
  readonly database: string
}

export const STATUSES: readonly Status[] = ['pending', 'assigned', 'completed', 'failed']
export const CALLBACK_STATES: readonly CallbackState[] = ['failed', 'owed', 'delivered']
export const TIERS = ['user_free', 'user_go', 'user_pro', 'user_max'] as const
export const ROLES: readonly Role[] = ['system', 'developer', 'assistant', 'user']
