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

  /** From now on calls these when other nodes report something. Events before this call are lost; see `NodeEvents`. */
  subscribe(events: NodeEvents): void

  /**
   * Creates or renews the node's lease, which expires `leaseMs` from now by the database's clock: the clocks of nodes differ,
   * and may jump.
   */
  renew(node: string, leaseMs: number): Promise<Renewal>

  /** Ends the lease of a node that holds no jobs. A second call changes nothing. */
  leave(node: string): Promise<void>

  /**
   * Takes the jobs that were cancelled and that this node held, or that it has a pending response for: up to `MAX_CANCELLED` of
   * them, each once. Fewer means that there are no more. `attempt` is that of the last claim, 0 if there was none.
   */
  takeCancelled(node: string): Promise<Claim[]>
}

export interface Renewal {
  /** False if there was no lease: the first time, and after it expired and another node rescued the jobs. */
  readonly kept: boolean
  /** Everything that the node holds, as the database has it. */
  readonly held: readonly Claim[]
}

/** What other nodes report to this one. Each event may come late or be lost; none is needed for more than speed. */
export interface NodeEvents {
  /** Jobs were queued, or may have been. */
  readonly jobsWaiting: () => void
  /** Another node settled jobs for which this node has a pending response. */
  readonly settled: (jobIds: readonly string[]) => void
}
