/** What the operations of the Postgres store of one node share. */
import type { Database } from './database.ts'
import type { StatementGroups } from './groups.ts'
import type { Notifications } from './notifications.ts'
import type { OtherNodes } from './other-nodes.ts'
import type { RouteWalks } from './route-walks.ts'

export interface PostgresParts {
  readonly database: Database
  readonly groups: StatementGroups
  readonly walks: RouteWalks
  readonly others: OtherNodes
  readonly notifications: Notifications
  /** Writes of each kind that may be queued before new jobs are rejected. */
  readonly maxQueued: number
  readonly onCommit?: (size: number, ms: number) => void
}
