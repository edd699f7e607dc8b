/**
 * Defines the types of the admin API's responses: the `data` of each route below `/admin/api`. Times are Unix seconds. Imports
 * from the server are type-only, so a browser never loads code of the server through this module.
 */

import type { CallbackSummary } from '../../admin/job-view.ts'
import type { Message, Role, Status, JobError as StoredError } from '../../job/job.ts'

export type * from '../../admin/account-view.ts'
export type * from '../../admin/audit-entry.ts'
export type * from '../../admin/batch-view.ts'
export type * from '../../admin/job-view.ts'
export type * from '../../admin/overview.ts'
export type { Message, Role, Status }
export type CallbackState = CallbackSummary['state']

export interface JobContent {
  readonly messages: readonly Message[]
  readonly response_format: { readonly format: 'text' | 'json'; readonly schema?: unknown }
  readonly options?: Readonly<Record<string, unknown>>
  readonly metadata?: Readonly<Record<string, string>>
  readonly result: { readonly response_content: unknown } | null
  readonly error: JobError | null
  readonly receipt: Receipt | null
}

export interface JobError extends Omit<StoredError, 'raw_text'> {
  readonly raw_text?: string
}

export interface Receipt {
  readonly form: 'text' | 'json' | 'schema'
  readonly strict?: boolean
  readonly ignored?: readonly string[]
  readonly calls: readonly ReceiptCall[]
  /** A node crashed while it ran the job, so calls may be missing. */
  readonly calls_lost?: true
  readonly repair?: { readonly raw_text: string; readonly errors: readonly string[] }
}

export interface ReceiptCall {
  readonly target: string
  readonly kind: 'answer' | 'refused' | 'trouble'
  readonly status: number | null
  readonly ms: number
  /** Receipts of earlier versions have neither `roles` nor `json_mode`. */
  readonly roles?: 'native' | 'developer_as_system' | 'merged_system' | 'no_system'
  /** `json_mode` is also absent if the job requested text. */
  readonly json_mode?: JsonMode
  readonly instruction?: string
  /** The answer was truncated at a length limit. */
  readonly finish_reason?: 'length'
  /** The server rejected the format of the previous call. The value is what has changed since. */
  readonly other_format?: 'roles' | 'json_mode' | 'both'
  /** The connection broke during the call. */
  readonly broke?: { readonly in_progress: number; readonly counts: boolean; readonly schema?: string }
}

export type JsonMode = 'json_schema_strict' | 'json_schema' | 'json_object' | 'instruction' | 'simulated'

export interface AccountDeleted {
  readonly jobs: number
  readonly cancelled: number
  readonly usage_as: string | null
}

export const STATUSES: readonly Status[] = ['pending', 'assigned', 'completed', 'failed']
export const CALLBACK_STATES: readonly CallbackState[] = ['failed', 'owed', 'delivered']
export const ROLES: readonly Role[] = ['system', 'developer', 'assistant', 'user']
