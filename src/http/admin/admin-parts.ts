/** What the routes of the admin API are made from. */
import type { FastifyRequest } from 'fastify'
import type { Audit, Intended } from '../../admin/audit.ts'
import type { MetricFeed } from '../../admin/metric-feed.ts'
import type { Overview } from '../../admin/overview.ts'
import type { Clock } from '../../clock.ts'
import type { Expiry } from '../../store/expiry.ts'
import type { OperatorStore } from '../../store/operator-store.ts'

export interface AdminRoutes {
  /** Null where the admin API is closed: every request is refused. */
  readonly token: string | null
  readonly store: OperatorStore
  readonly clock: Clock
  readonly expiry: () => Expiry
  readonly points: MetricFeed
  readonly audit: Audit
  /** Resolves when this node has taken note of all jobs that were cancelled until now. */
  readonly onCancelled: () => Promise<void>
  readonly overview: () => Promise<Overview>
  /** JSON text, without any secret. */
  readonly settingsJson: string
  /** Told of each write and each look at contents, for the log. Its details hold no contents and no secret. */
  readonly onAct: (act: AdminAct) => void
  /** Who listened to the points by this request did not read them, and was let go. */
  readonly onDropped: (requestId: string) => void
}

export interface AdminAct {
  readonly what: string
  readonly details: Readonly<Record<string, unknown>>
  readonly requestId: string
  readonly from: string
  /** Who sent it, where the request says. */
  readonly operator: string | null
}

/** What the routes of each subject are given. */
export interface AdminParts extends AdminRoutes {
  /** Does what was intended, on record: see `Audit`. Throws a refusal where who sends it is no name. */
  readonly act: <T>(request: FastifyRequest, intended: Intended<T>) => Promise<T>
  readonly noteAct: (request: FastifyRequest, what: string, details: AdminAct['details']) => void
}
