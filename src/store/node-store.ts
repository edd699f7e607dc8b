/**
 * Nodes that share a database: each holds a lease while it lives, and tells the others what cannot wait. A store that one
 * process has to itself keeps the contract with nothing to do: its lease is the file's lock, and nobody else is told.
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
   * Makes or renews the node's lease, to end `leaseMs` from now by the database's own clock: those of nodes differ, and
   * may jump.
   */
  renew(node: string, leaseMs: number): Promise<Renewal>

  /** Ends the lease of a node that has nothing in hand any more. */
  leave(node: string): Promise<void>

  /**
   * Takes the jobs that were cancelled and that this node held, or that a request waits for on this node: up to
   * `MAX_CANCELLED` of them, each once. `attempt` is that of the last claim, 0 when there was none.
   */
  takeCancelled(node: string): Promise<Claim[]>
}

export interface Renewal {
  /** False where there was no lease to renew: the first time, and after others found it ended and took the jobs. */
  readonly kept: boolean
  /** Everything that the node holds, as the database has it. */
  readonly held: readonly Claim[]
}

/** What other nodes report to this one. Each event may come late or be lost; none is needed for more than speed. */
export interface NodeEvents {
  /** Jobs were queued, or may have been. */
  readonly jobsWaiting: () => void
  /** Jobs that this node accepted for a caller who waits have been settled by another. */
  readonly settled: (jobIds: readonly string[]) => void
}
