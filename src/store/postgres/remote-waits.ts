/**
 * Which other nodes wait for which jobs, as they announced it: so that the node that ends a job notifies them at once. It may
 * forget some, and remember some whose wait has ended; a poll of every node makes up for both.
 */

/** Longer than any wait (SPEC §2.1). */
const REMEMBERED_MS = 130_000
/** Some 30 MB; the oldest are forgotten first. */
const MAX_JOBS = 100_000
/** Jobs that ended here last, of which an announcement may arrive late. A power of two. */
const RECENT_JOBS = 1024

interface Waiting {
  readonly nodes: Set<string>
  readonly untilMs: number
}

export class RemoteWaits {
  readonly #steadyMs: () => number
  readonly #maxJobs: number
  /** In the order of their announcement. */
  readonly #byJob = new Map<string, Waiting>()
  readonly #recent: string[] = []
  #endedCount = 0

  constructor(steadyMs: () => number, maxJobs = MAX_JOBS) {
    this.#steadyMs = steadyMs
    this.#maxJobs = maxJobs
  }

  get size(): number {
    return this.#byJob.size
  }

  /** Returns those of the jobs that ended here just before; they are not remembered. */
  add(node: string, jobIds: readonly string[]): string[] {
    const nowMs = this.#steadyMs()
    const recent = new Set(this.#recent)
    for (const jobId of jobIds) {
      if (recent.has(jobId)) continue
      const nodes = this.#byJob.get(jobId)?.nodes ?? new Set()
      nodes.add(node)
      this.#byJob.delete(jobId)
      this.#byJob.set(jobId, { nodes, untilMs: nowMs + REMEMBERED_MS })
    }
    for (const [jobId, { untilMs }] of this.#byJob) {
      if (untilMs > nowMs && this.#byJob.size <= this.#maxJobs) break
      this.#byJob.delete(jobId)
    }
    return jobIds.filter((jobId) => recent.has(jobId))
  }

  /** A job ended here. Returns the nodes that wait for it, which are forgotten. */
  end(jobId: string): Iterable<string> {
    this.#recent[this.#endedCount++ & (RECENT_JOBS - 1)] = jobId
    if (this.#byJob.size === 0) return []
    const nodes = this.#byJob.get(jobId)?.nodes
    this.#byJob.delete(jobId)
    return nodes ?? []
  }
}
