/**
 * Nodes that share a database: the part of the storage contract for leases and for what nodes report to each other. On SQLite
 * there are no other nodes, and a lock on the file replaces the lease.
 */

export interface Claim {
  readonly jobId: string
  readonly attempt: number
}

/**
 * An earlier version would ignore these features in a request or in stored data. Together with its lease, each node stores the
 * names of the features that it knows. Released names must not change.
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

  /** The result may be some seconds old. */
  isKnownToAll(feature: Feature): boolean

  /**
   * Asks other nodes to notify this one (`NodeEvents.settled`) if they finish one of these jobs within two minutes.
   * Notifications may be lost, so callers must also poll. Resolves even if the nodes could not be asked.
   */
  announceWaits(jobIds: readonly string[]): Promise<void>

  /** Events before this call are lost. */
  subscribe(events: NodeEvents): void

  /**
   * Creates or renews the lease. It expires by the database's clock, because the clocks of nodes differ and may jump. Returns
   * false if there was no lease to renew: the first time, and after another node has rescued the jobs. On SQLite, always
   * returns true.
   */
  renew(node: string, leaseMs: number): Promise<boolean>

  claimsOf(node: string): Promise<Claim[]>

  /**
   * Reverts the crashes of nodes that have a lease again, because they were only paused or disconnected: open jobs no longer
   * count them. Returns how many crashes of open jobs it reverted. If several nodes call this, only one reverts each crash.
   */
  revertCrashes(): Promise<number>

  absentNodes(): Promise<string[]>

  /**
   * Confirms crashes of nodes that have been absent for `absentMs` since their crash, so that jobs may fail because of them. A
   * crash is still reverted if the node comes back before the job has finished. On SQLite, crashes are confirmed at once,
   * because the new process proves that the previous one has exited.
   */
  confirmCrashes(nodes: readonly string[], absentMs: number): Promise<void>

  /** The node must hold no jobs. A second call changes nothing. */
  leave(node: string): Promise<void>

  /**
   * Takes cancelled jobs that this node held or has a pending response for; on SQLite, all cancelled jobs. Returns each of them
   * at most once. If fewer than `MAX_CANCELLED` are returned, there are no more. `attempt` is 0 if the job was never claimed.
   */
  takeCancelled(node: string): Promise<Claim[]>

  /** `upstreams/rate-window.ts` defines the state. Returns null if none is stored. */
  readRate(name: string): Promise<StoredRate | null>

  /**
   * Returns false and changes nothing unless `rate.version` is the stored version; 0 means that none is stored. SQLite stores
   * no rates.
   */
  writeRate(name: string, rate: StoredRate): Promise<boolean>
}

export interface StoredRate {
  readonly stateJson: string
  readonly version: number
}

/** A separate connection renews leases, so that no other statement delays a renewal. */
export interface Leases extends Pick<NodeStore, 'renew'> {
  close(): Promise<void>
}

/** Nodes also poll, so events may be late or lost. */
export interface NodeEvents {
  /** The route is null if jobs may have been queued on any route. */
  readonly jobsWaiting: (route: string | null) => void
  /** Pending responses on this node wait, or waited, for these jobs. */
  readonly settled: (jobIds: readonly string[]) => void
}
