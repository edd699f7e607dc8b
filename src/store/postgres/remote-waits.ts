/**
 * Remembers which other nodes have announced that they wait for which jobs, so that the node that finishes a job can notify
 * them at once. It may forget a wait, or remember one that has ended, because waiting nodes also poll.
 */

/** Longer than any wait can last (SPEC §2.1). */
const REMEMBERED_MS = 130_000
/** This many jobs take about 30 MB. The oldest are forgotten first. */
const MAX_JOBS = 100_000
/** How many jobs that finished here are remembered, because an announcement may arrive late. Must be a power of two. */
const RECENT_JOBS = 1024

interface Waiting {
  readonly nodes: Set<string>
  readonly untilMs: number
}

export class RemoteWaits {
  readonly #steadyMs: () => number
  readonly #maxJobs: number
  /** In the order of announcement, so that the oldest come first. */
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

  /** Remembers that the node waits for these jobs. Returns those that have just finished here, which it does not remember. */
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

  /** Returns the nodes that wait for the job, which has finished here, and forgets that they wait. */
  end(jobId: string): Iterable<string> {
    this.#recent[this.#endedCount++ & (RECENT_JOBS - 1)] = jobId
    if (this.#byJob.size === 0) return []
    const nodes = this.#byJob.get(jobId)?.nodes
    this.#byJob.delete(jobId)
    return nodes ?? []
  }
}
