/** What the routes of the admin API depend on. */
import type { FastifyRequest } from 'fastify'
import type { AdminAction } from '../../admin/admin-action.ts'
import type { AuditLog } from '../../admin/audit-log.ts'
import type { WaitingRoute } from '../../admin/job-view.ts'
import type { MetricFeed } from '../../admin/metric-feed.ts'
import type { Overview } from '../../admin/overview.ts'
import type { Clock } from '../../clock.ts'
import type { Expiry } from '../../store/expiry.ts'
import type { OperatorStore } from '../../store/operator-store.ts'

export interface AdminOptions {
  /** Null if the admin API is disabled: every request is rejected. */
  readonly token: string | null
  readonly store: OperatorStore
  readonly clock: Clock
  readonly expiry: () => Expiry
  readonly samples: MetricFeed
  readonly auditLog: AuditLog
  /**
   * Resolves when this node has stopped its own runs of the jobs that were cancelled before the call, and ended the waits for
   * this one.
   */
  readonly onCancelled: (jobId?: string) => Promise<void>
  readonly overview: () => Promise<Overview>
  /** Why the jobs of a route wait for a model server; undefined if, as far as this node knows, they do not have to wait. */
  readonly waitingRoute: (route: string) => WaitingRoute | undefined
  /** JSON text without secrets. */
  readonly settingsJson: string
  /** Called for each change, and for each read of job contents or of a secret, so that the server can log it. */
  readonly onAction: (event: AdminEvent) => void
  /** Called when the client of an event stream did not read it and was disconnected. */
  readonly onSlowClient: (requestId: string) => void
}

/** An admin action for the server's log. */
export interface AdminEvent {
  readonly what: string
  /** Without job contents and secrets. */
  readonly details: Readonly<Record<string, unknown>>
  readonly requestId: string
  readonly from: string
  /** The operator's name, if the request has one. */
  readonly operator: string | null
}

export interface AdminContext extends AdminOptions {
  /**
   * Performs an action and records it in the audit log, see `AuditLog`. Throws 400 if the request's operator name is not
   * valid.
   */
  readonly perform: <T>(request: FastifyRequest, action: AdminAction<T>) => Promise<T>
  readonly logAction: (request: FastifyRequest, what: string, details: AdminEvent['details']) => void
}
