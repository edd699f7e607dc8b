/** Defines what the routes of the admin API depend on, and the errors that every one of them can return. */
import type { AuditLog } from '../../admin/audit-log.ts'
import type { WaitingRoute } from '../../admin/job-view.ts'
import type { CurrentState, MetricFeed } from '../../admin/overview.ts'
import type { Clock } from '../../clock.ts'
import type { Expiry } from '../../store/expiry.ts'
import type { OperatorStore } from '../../store/operator-store.ts'
import { Type } from '../../typed-schema.ts'
import { noSuchJob, tokenRequired, tooManyWrongTokens } from '../errors.ts'
import { ERRORS, type ErrorResponses, errorResponses, RETRY_AFTER } from '../openapi/schemas.ts'

export interface AdminOptions {
  /** `token` is null if the server has no token of its own. */
  readonly token: string | null
  readonly store: OperatorStore
  /** `currency` is undefined if no currency is configured. */
  readonly currency: string | undefined
  readonly clock: Clock
  readonly expiry: () => Expiry
  readonly tiers: () => readonly string[]
  readonly samples: MetricFeed
  readonly auditLog: AuditLog
  /** Aborts the executions of cancelled jobs on this node, and answers the pending responses of `jobId`. */
  readonly onCancelled: (jobId?: string) => Promise<void>
  readonly makeReruns: () => Promise<void>
  readonly overview: () => Promise<CurrentState>
  /** Returns why the jobs of a route wait for a model server, or undefined if this node knows no reason. */
  readonly waitingRoute: (route: string) => WaitingRoute | undefined
  /** `settingsJson` is JSON text without secrets. */
  readonly settingsJson: string
  /** The server logs each change, and each read of job contents or of a secret. */
  readonly onAction: (event: AdminEvent) => void
  /** Reports a client that was disconnected because it did not read its event stream. */
  readonly onSlowClient: (requestId: string) => void
}

export interface AdminEvent {
  readonly what: string
  /** The details must not contain job contents or secrets. */
  readonly details: Readonly<Record<string, unknown>>
  readonly requestId: string
  readonly from: string
  /** `operator` is null if the request has no operator's name. */
  readonly operator: string | null
}

const ADMIN_ERRORS: ErrorResponses = {
  ...ERRORS,
  401: {
    name: 'Unauthorized',
    description: 'The admin token is missing or wrong.',
    headers: { 'www-authenticate': Type.String({ description: '`Bearer`.' }) },
    example: tokenRequired(),
  },
  404: { name: 'NotFound', description: 'The resource in the path does not exist.', example: noSuchJob() },
  429: {
    name: 'TooManyRequests',
    description: 'Too many wrong tokens from this address. See Retry-After.',
    headers: RETRY_AFTER,
    example: tooManyWrongTokens(42),
  },
}

/** Documents these statuses, and those that every route of the admin API can return. */
export function adminErrors(...statuses: number[]): Record<number, object> {
  return errorResponses(ADMIN_ERRORS, [401, 429, 500, 503, ...statuses])
}
