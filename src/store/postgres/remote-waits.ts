/**
 * Remembers which nodes have announced that they wait for jobs, so that the node that finishes a job can notify them at once.
 * It need not be exact, because waiting nodes also poll.
 */

/** Announcements are forgotten after this time, because no wait can last longer (SPEC §2.1). */
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
  /** The job whose last announcement is the oldest comes first. */
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

  /** Returns the jobs that have just finished here, and remembers only the others. */
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

  /** The job has finished here. Returns the nodes that wait for it, and forgets them. */
  end(jobId: string): Iterable<string> {
    this.#recent[this.#endedCount++ & (RECENT_JOBS - 1)] = jobId
    if (this.#byJob.size === 0) return []
    const nodes = this.#byJob.get(jobId)?.nodes
    this.#byJob.delete(jobId)
    return nodes ?? []
  }
}
