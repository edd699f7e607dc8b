/**
 * A request that waits until any or all of several existing jobs have finished. It takes a pending response for each job, so it
 * shares the slots of requests that create jobs.
 */
import type { PendingResponse, PendingResponses } from './pending-responses.ts'

export interface JobsToAwait {
  readonly account: string
  /** At least one job, without duplicates. All of them existed when they were read before the wait. */
  readonly jobIds: readonly string[]
  readonly ms: number
  /** Which of them must have finished. A job that no longer exists counts as finished. */
  readonly until: 'any' | 'all'
}

/** How a wait ended: the jobs have finished; it timed out or was left; or the server is stopping. */
export type JobWaitEnd = 'ended' | 'timeout' | 'stopping'

export interface JobWait {
  /** Resolves without results, which are large together and are read when they are sent. */
  readonly ended: Promise<JobWaitEnd>
  /** Ends the wait as if it timed out. Does nothing if it has ended. */
  readonly leave: () => void
}

/**
 * Waits from now on. It misses jobs that finished before the call, so read the jobs again after it. Returns null if it cannot
 * wait for all of them (`PendingResponses.add`).
 */
export function waitForJobs(
  pendingResponses: Pick<PendingResponses, 'add'>,
  { account, jobIds, ms, until }: JobsToAwait,
): JobWait | null {
  const open = new Set<PendingResponse>()
  const leave = () => {
    for (const pending of open) pending.leave()
    open.clear()
  }
  for (const jobId of jobIds) {
    const pending = pendingResponses.add(jobId, account, ms, true)
    if (pending === null) {
      leave()
      return null
    }
    open.add(pending)
  }
  const { promise, resolve } = Promise.withResolvers<JobWaitEnd>()
  for (const pending of open) {
    void pending.ended.then(({ kind }) => {
      open.delete(pending)
      const isOver = kind === 'timeout' || kind === 'stopping'
      if (!isOver && until === 'all' && open.size > 0) return
      resolve(isOver ? kind : 'ended')
      leave()
    })
  }
  return { ended: promise, leave }
}
