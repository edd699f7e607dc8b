/**
 * What the admin API answers with, under `data` (all under `/admin/api`). Times are Unix seconds. Of the server's own words
 * for it only types are taken: they are gone before a browser is sent this.
 */
import type { CallbackView as CallbackSummary } from '../../admin/callback-view.ts'
import type { JobSummaryView as JobSummary } from '../../admin/job-view.ts'
import type { MetricSample } from '../../admin/metric-sample.ts'
import type { Overview as Now } from '../../admin/overview.ts'
import type { Caps } from './contract-operations.ts'

export type {
  AttemptView as CallbackAttempt,
  CallbackDetailsView as CallbackDetails,
} from '../../admin/callback-view.ts'
export type { JobDetailsView as JobDetails, TimelineEntry } from '../../admin/job-view.ts'
export type { PercentilesView as Percentiles } from '../../admin/metric-sample.ts'
export type { UpstreamView as Upstream } from '../../admin/overview.ts'
export type { CallbackSummary, JobSummary, MetricSample }

/** With the last minutes, oldest first. */
export interface Overview extends Now {
  readonly points: readonly MetricSample[]
}

export type Status = 'pending' | 'assigned' | 'completed' | 'failed'
export type CallbackState = 'owed' | 'delivered' | 'failed'

export interface JobList {
  readonly jobs: readonly JobSummary[]
  readonly more: boolean
  /** False when the search stopped at its bound before it had seen every job. */
  readonly complete: boolean
  /** What to give as `before` to go on. */
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
