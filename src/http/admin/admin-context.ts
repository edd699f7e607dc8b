/** What the routes of the admin API depend on, and which errors all of them can return. */
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
  /** The server's own admin token; null if it has none. */
  readonly token: string | null
  readonly store: OperatorStore
  /** The currency of all costs; undefined if none is configured. */
  readonly currency: string | undefined
  readonly clock: Clock
  readonly expiry: () => Expiry
  readonly tiers: () => readonly string[]
  readonly samples: MetricFeed
  readonly auditLog: AuditLog
  /**
   * Aborts the executions of all cancelled jobs on this node, and answers the pending responses of `jobId`. Resolves when both
   * are done.
   */
  readonly onCancelled: (jobId?: string) => Promise<void>
  /** Creates the reruns that operators have requested. */
  readonly makeReruns: () => Promise<void>
  readonly overview: () => Promise<CurrentState>
  /** Returns why the jobs of a route wait for a model server; undefined if this node knows no reason. */
  readonly waitingRoute: (route: string) => WaitingRoute | undefined
  /** The settings as JSON text, without secrets. */
  readonly settingsJson: string
  /** Called for each change, and for each read of job contents or of a secret. The server logs it. */
  readonly onAction: (event: AdminEvent) => void
  /** Called when a client was disconnected because it did not read its event stream. */
  readonly onSlowClient: (requestId: string) => void
}

/** An admin action for the server's log. */
export interface AdminEvent {
  readonly what: string
  /** For the log. Never contains job contents or secrets. */
  readonly details: Readonly<Record<string, unknown>>
  readonly requestId: string
  readonly from: string
  /** The operator's name, if the request has one. */
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

/** Documents these statuses, and those that any route of the admin API can return. */
export function adminErrors(...statuses: number[]): Record<number, object> {
  return errorResponses(ADMIN_ERRORS, [401, 429, 500, 503, ...statuses])
}
