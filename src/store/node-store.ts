/**
 * Nodes that share a database: each holds a lease while it is alive, and notifies the others of urgent events. A store with
 * one node fulfils this contract trivially: its lease is the lock on the file, and there are no other nodes.
 */

/** A node's hold on a job. */
export interface Claim {
  readonly jobId: string
  readonly attempt: number
}

/**
 * What callers may ask for and nodes of some earlier version ignore. Each node writes those it knows next to its lease, because the
 * version of a package does not show them. A released name stays.
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

/** The maximum number of jobs that `takeCancelled` returns. */
export const MAX_CANCELLED = 1000

export interface NodeStore {
  /** Whether other nodes may be using the same database now. */
  readonly shared: boolean

  /** Whether every node that is alive knows the feature, as far as this one knows: what it knows may be some seconds old. */
  isKnownToAll(feature: Feature): boolean

  /**
   * Asks the other nodes to notify this one (`NodeEvents.settled`) as soon as they settle or cancel one of these jobs within
   * the next two minutes. For speed only: jobs that finished before, or while the request is on its way, are not notified.
   * Resolves when the nodes have been asked or could not be asked; never rejects.
   */
  announceWaits(jobIds: readonly string[]): Promise<void>

  /** Calls these functions from now on when other nodes report something. Earlier events are lost; see `NodeEvents`. */
  subscribe(events: NodeEvents): void

  /**
   * Creates or renews the node's lease, which expires `leaseMs` from now by the database's clock: the clocks of nodes differ,
   * and may jump. Returns whether there was a lease: false the first time, and after it expired and another node rescued the
   * jobs.
   */
  renew(node: string, leaseMs: number): Promise<boolean>

  /** Everything that the node holds, according to the database. */
  claimsOf(node: string): Promise<Claim[]>

  /**
   * Reverts the crashes of nodes that have a lease again, because they were only paused or disconnected: the crash count of
   * each open job that they held is reduced by what they added to it. Returns how many crashes it reverted; when several
   * nodes call this, one reverts each.
   */
  revertCrashes(): Promise<number>

  /** The nodes that have no lease and have crashes that are not confirmed. */
  absentNodes(): Promise<string[]>

  /**
   * Confirms the crashes of those of the nodes that have been absent for `absentMs` since they were counted: jobs may fail for
   * them. They are still reverted if the node comes back before the job has finished. If a new process proves that the
   * previous one has exited, every crash is confirmed when it is counted, and there are no absent nodes.
   */
  confirmCrashes(nodes: readonly string[], absentMs: number): Promise<void>

  /** Deletes the lease of a node that holds no jobs. A second call changes nothing. */
  leave(node: string): Promise<void>

  /**
   * Takes the cancelled jobs that this node held, or has a pending response for: up to `MAX_CANCELLED` of them, each once.
   * Fewer means that there are no more. `attempt` is that of the last claim, 0 if there was none.
   */
  takeCancelled(node: string): Promise<Claim[]>

  /** The books of a rate that nodes share (`upstreams/rate-window.ts`), as last written; null if there are none. */
  readRate(name: string): Promise<StoredRate | null>

  /**
   * Replaces the books if nobody has since that version was read, 0 if there were none. Returns whether it did; a second call
   * changes nothing.
   */
  writeRate(name: string, rate: StoredRate): Promise<boolean>
}

export interface StoredRate {
  readonly stateJson: string
  readonly version: number
}

/** Renews leases, on a connection that nothing else uses. */
export interface Leases extends Pick<NodeStore, 'renew'> {
  close(): Promise<void>
}

/** Events that other nodes report to this one. They may arrive late or be lost, because they only improve speed. */
export interface NodeEvents {
  /** Jobs were queued on this route, or may have been; null if the route is not known. */
  readonly jobsWaiting: (route: string | null) => void
  /** Another node settled jobs for which this node has or had a pending response. */
  readonly settled: (jobIds: readonly string[]) => void
}
