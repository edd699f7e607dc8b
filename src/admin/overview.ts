/** The current state of a node and its database. Times are Unix seconds. */

export interface Overview {
  readonly now: number
  readonly version: string
  readonly node: string
  readonly role: string
  readonly simulated: boolean
  readonly started_at: number
  /** One entry, the main thread: it serves HTTP. */
  readonly threads: readonly ThreadView[]
  readonly jobs: {
    readonly waiting: number
    readonly assigned: number
    readonly oldest_age_seconds: number
    readonly running: number
    readonly waiters: number
  }
  readonly callbacks: {
    readonly owed: number
    readonly failed: number
    readonly late_seconds: number
    readonly under_way: Readonly<Record<string, number>>
  }
  readonly held_back: readonly HeldBackView[]
  readonly upstreams: readonly UpstreamView[]
}

export interface ThreadView {
  /** Open now. */
  readonly connections: number
  /** The part of the time since the last look in which its event loop was busy, from 0 to 1. */
  readonly busy: number
}

/** An account whose queued jobs are held back on this node for slots or memory, while jobs of others start. */
export interface HeldBackView {
  readonly account: string
  readonly reason: 'slots' | 'memory'
}

/** Why jobs wait for a model server. */
export interface UpstreamTrouble {
  readonly since: number
  readonly reason: 'unreachable' | 'overloaded' | 'broken' | 'misconfigured' | 'failing'
  /** The HTTP status, if there was a response. */
  readonly status: number | null
  readonly message: string
}

export interface UpstreamView {
  readonly name: string
  readonly running: number
  readonly waiting: number
  /** The current limit of concurrent calls, and its maximum. */
  readonly concurrency_limit: number
  readonly max_concurrency: number
  /** When the first of its targets is tried again; null unless all of its targets are skipped. */
  readonly skipped_until: number | null
  /** Models whose chat templates reject system messages or irregular conversations; these are sent as `no_system`. */
  readonly rejected_roles: readonly {
    readonly model: string
    readonly rejects: 'system' | 'irregular'
    readonly until: number
  }[]
  /** Models that jobs wait for, because calls to them fail. */
  readonly unavailable: readonly (UpstreamTrouble & { readonly model: string })[]
}
