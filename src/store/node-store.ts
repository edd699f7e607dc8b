/**
 * Nodes that share a database: each holds a lease while it lives, and notifies the others of what is urgent. A store with one
 * node keeps this contract trivially: its lease is the lock on the file, and there is no other node.
 */

/** A node's hold on a job. */
export interface Claim {
  readonly jobId: string
  readonly attempt: number
}

/** The most jobs that `takeCancelled` returns at once. */
export const MAX_CANCELLED = 1000

export interface NodeStore {
  /** Whether other nodes may be using the same database now. */
  readonly shared: boolean

  /**
   * Asks the other nodes to notify this one (`NodeEvents.settled`) as soon as they settle or cancel one of these jobs within the
   * next two minutes. For speed only: what ended before, or while they are being asked, is not notified. Resolves when they have
   * been asked or could not be, and never rejects.
   */
  announceWaits(jobIds: readonly string[]): Promise<void>

  /** From now on calls these when other nodes report something. Events before this call are lost; see `NodeEvents`. */
  subscribe(events: NodeEvents): void

  /**
   * Creates or renews the node's lease, which expires `leaseMs` from now by the database's clock: the clocks of nodes differ,
   * and may jump. Returns whether there was a lease: false the first time, and after it expired and another node rescued the
   * jobs.
   */
  renew(node: string, leaseMs: number): Promise<boolean>

  /** Everything that the node holds, as the database has it. */
  claimsOf(node: string): Promise<Claim[]>

  /**
   * Reverts the crashes of nodes that have a lease again, because they were only paused or cut off: the crash count of each
   * job that they held, and that is still open, goes down by what they added to it. Returns how many crashes it reverted; when
   * several nodes call this, one reverts each.
   */
  revertCrashes(): Promise<number>

  /**
   * Confirms the crashes of nodes that have been absent for `absentMs` since they were counted: jobs may fail for them. They
   * are still reverted if the node comes back before the job has ended. Where a new process proves that the one before has
   * ended, every crash is confirmed when it is counted.
   */
  confirmCrashes(absentMs: number): Promise<void>

  /** Ends the lease of a node that holds no jobs. A second call changes nothing. */
  leave(node: string): Promise<void>

  /**
   * Takes the jobs that were cancelled and that this node held, or that it has a pending response for: up to `MAX_CANCELLED` of
   * them, each once. Fewer means that there are no more. `attempt` is that of the last claim, 0 if there was none.
   */
  takeCancelled(node: string): Promise<Claim[]>
}

/** Renewing leases, on a connection that nothing else uses. */
export interface Leases extends Pick<NodeStore, 'renew'> {
  close(): Promise<void>
}

/** What other nodes report to this one. Each event may come late or be lost; none is needed for more than speed. */
export interface NodeEvents {
  /** Jobs were queued, or may have been. */
  readonly jobsWaiting: () => void
  /** Another node ended jobs for which this node has a pending response, or had one. */
  readonly settled: (jobIds: readonly string[]) => void
}
