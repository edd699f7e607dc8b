/** The Postgres store of one of many nodes, composed of the operations in the other files. */
import { sharedServerOperations } from '../shared-operations.ts'
import { type Store, StoreUnavailable } from '../store.ts'
import { acceptOperations } from './accept.ts'
import { batchStepOperations, callbackOperations } from './callbacks.ts'
import { cancelledOperations } from './cancel.ts'
import { claimOperations } from './claim.ts'
import { costCapOperations } from './cost-caps.ts'
import { Database, type DatabaseOptions, methodsOn } from './database.ts'
import { POSTGRES } from './dialect.ts'
import { expireOperations } from './expire.ts'
import { checkFitness } from './fitness.ts'
import { crashOperations, nodeOperations, releaseOperations, rescueOperations } from './nodes.ts'
import { Notifications } from './notifications.ts'
import { operatorOperations } from './operator-store.ts'
import { overdueOperations } from './overdue.ts'
import { keepPartitions } from './partitions.ts'
import { OtherNodes, type PostgresParts, StatementGroups } from './parts.ts'
import { healthOperations, readOperations, responseCacheOperations } from './read.ts'
import { RouteWalks } from './route-walks.ts'
import { migratePostgres } from './schema.ts'
import { settleOperations } from './settle.ts'

export interface PostgresStoreOptions extends Omit<DatabaseOptions, 'networkMs'> {
  /** Other nodes address this node by its name. */
  readonly node: string
  /** If this many acceptances are queued, further ones are rejected. */
  readonly maxQueued: number
  readonly retentionMs: number
  readonly nowMs: () => number
  readonly onCommit?: (size: number, ms: number) => void
  /** Gets messages for the operator, for example that notifications do not arrive. */
  readonly onNote: (message: string) => void
}

/** Rejects with a `DatabaseProblem` if the operator must fix something. Migrates the schema. */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  await migratePostgres(options.url)
  const database = new Database(options)
  try {
    await checkFitness(database, options.onNote)
    await tryToKeepPartitions(database, options)
    const parts = connectParts(database, options)
    await parts.others.look()
    await parts.notifications.begin()
    return composeStore(parts, options)
  } catch (error) {
    await database.close()
    throw error
  }
}

/**
 * A dump of the database locks the partitions until it ends. This must not prevent a start, because jobs without a partition go
 * to the default one.
 */
async function tryToKeepPartitions(
  database: Database,
  { nowMs, retentionMs, onNote }: PostgresStoreOptions,
): Promise<void> {
  try {
    await keepPartitions(database, { nowMs: nowMs(), retentionMs })
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error
    onNote(`partitions could not be created or dropped yet: ${error.message}`)
  }
}

function connectParts(database: Database, options: PostgresStoreOptions): PostgresParts {
  const { maxQueued, onCommit, node, url, statementMs, onNote } = options
  const walks = new RouteWalks()
  const others = new OtherNodes(database, node, walks)
  const notifications = new Notifications({
    url,
    statementMs,
    database,
    node,
    onQueued: (route, turn) => walks.joined(route, turn),
    onPoll: () => {
      // A failure needs no handling, because the next poll follows in a second.
      others.look().catch(() => {})
    },
    onChange: onNote,
  })
  const groups = new StatementGroups()
  return { database, groups, walks, others, notifications, maxQueued, ...(onCommit && { onCommit }) }
}

function composeStore(parts: PostgresParts, { url, nowMs }: PostgresStoreOptions): Store {
  const { database, groups, notifications } = parts
  const operations = operatorOperations(database, url)
  const close = async () => {
    await groups.drained()
    await notifications.close()
    await database.close()
  }
  let closed: Promise<void> | null = null
  return {
    shared: true,
    subscribe: (events) => notifications.subscribe(events),
    announceWaits: (jobIds) => notifications.announceWaits(jobIds),
    ...operations,
    cancelJob: async (jobId, atMs) => {
      const result = await operations.cancelJob(jobId, atMs)
      if (result === 'cancelled') notifications.ended(jobId)
      return result
    },
    cancelOwnJob: async (cancel) => {
      const result = await operations.cancelOwnJob(cancel)
      if (result === 'cancelled') notifications.ended(cancel.jobId)
      return result
    },
    ...acceptOperations(parts),
    ...methodsOn(database, batchStepOperations),
    ...costCapOperations(parts),
    ...callbackOperations(parts),
    ...cancelledOperations(database),
    ...claimOperations(parts),
    ...crashOperations(parts),
    ...expireOperations(parts),
    ...healthOperations(parts, nowMs),
    ...methodsOn(database, sharedServerOperations(POSTGRES)),
    ...nodeOperations(parts),
    ...overdueOperations(parts),
    ...readOperations(parts),
    ...releaseOperations(parts),
    ...rescueOperations(parts),
    ...responseCacheOperations(parts),
    ...settleOperations(parts),
    close: () => {
      closed ??= close()
      return closed
    },
  }
}
