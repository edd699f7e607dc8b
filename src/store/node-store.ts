/**
 * Nodes that share a database: the part of the storage contract for leases and for what nodes tell each other. Each node holds
 * a lease while it is alive. On SQLite there are no other nodes, and a lock on the file replaces the lease.
 */

/** A node's hold on a job. */
export interface Claim {
  readonly jobId: string
  readonly attempt: number
}

/**
 * Features that an earlier version would ignore in a request or in stored data. Each node stores the features that it knows
 * with its lease. Released names must not change.
 */
export const FEATURES = [
  'options',
  'callback.include',
  'metadata',
  'complete_within',
  'priority',
  'uncached',
  'callback.event',
  'responses',
  'traceparent',
  'batches',
  'prices',
  'rates',
  'compressed_texts',
] as const
export type Feature = (typeof FEATURES)[number]

export const MAX_CANCELLED = 1000

export interface NodeStore {
  readonly shared: boolean

  /** Whether every live node knows the feature. The result may be some seconds old. */
  isKnownToAll(feature: Feature): boolean

  /**
   * Asks the other nodes to notify this one (`NodeEvents.settled`) if they settle or cancel one of these jobs within the next
   * two minutes. Jobs that finish before a node receives this are not reported, so callers must also poll. Resolves when the
   * nodes were asked, even without success; never rejects.
   */
  announceWaits(jobIds: readonly string[]): Promise<void>

  /** Calls these functions when other nodes report something. Earlier events are lost. */
  subscribe(events: NodeEvents): void

  /**
   * Creates or renews the node's lease. It expires in `leaseMs` by the database's clock, because the clocks of nodes differ and
   * may jump. Returns whether the lease existed: false the first time, and if the lease had expired and another node has
   * rescued the jobs.
   */
  renew(node: string, leaseMs: number): Promise<boolean>

  /** Returns every claim that the node holds according to the database. */
  claimsOf(node: string): Promise<Claim[]>

  /**
   * Reverts the crashes of nodes that have a lease again, because they were only paused or disconnected. This subtracts the
   * crashes from the crash counts of open jobs. Returns how many crashes it reverted. If several nodes call this, only one
   * reverts each crash.
   */
  revertCrashes(): Promise<number>

  /** Returns the nodes without a lease that have unconfirmed crashes. */
  absentNodes(): Promise<string[]>

  /**
   * Confirms the crashes of those nodes that have been absent for `absentMs` since the crash, so that jobs may fail because of
   * them. If a node comes back before a job has finished, its crash is still reverted. On SQLite, crashes are confirmed when
   * they are counted, because the new process proves that the previous one has exited.
   */
  confirmCrashes(nodes: readonly string[], absentMs: number): Promise<void>

  /** Deletes the lease of a node that holds no jobs. A second call changes nothing. */
  leave(node: string): Promise<void>

  /**
   * Takes up to `MAX_CANCELLED` cancelled jobs that this node held or has a pending response for. Each job is returned once. If
   * fewer are returned, there are no more. `attempt` is that of the last claim; 0 if the job was never claimed.
   */
  takeCancelled(node: string): Promise<Claim[]>

  /** Reads the state of a rate that nodes share (`upstreams/rate-window.ts`); null if none is stored. */
  readRate(name: string): Promise<StoredRate | null>

  /**
   * Replaces the state of a rate if its stored version is still `rate.version`; 0 means that none was stored. Returns whether
   * it did, so a second call changes nothing.
   */
  writeRate(name: string, rate: StoredRate): Promise<boolean>
}

export interface StoredRate {
  readonly stateJson: string
  readonly version: number
}

/** Renews leases on a separate connection, so that no other statement delays a renewal. */
export interface Leases extends Pick<NodeStore, 'renew'> {
  close(): Promise<void>
}

/** Events from other nodes. They may be late or lost, because nodes also poll. */
export interface NodeEvents {
  /** Jobs may have been queued on this route; null if the route is not known. */
  readonly jobsWaiting: (route: string | null) => void
  /** Another node settled jobs for which this node has or had a pending response. */
  readonly settled: (jobIds: readonly string[]) => void
}
