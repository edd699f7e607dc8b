/**
 * A request that waits until any or all of several existing jobs have finished. It takes one pending response for each job, so
 * it uses the same slots as requests that create a job and wait for it.
 */
import type { PendingResponse, PendingResponses } from './pending-responses.ts'

export interface JobsToAwait {
  readonly account: string
  /** At least one job, without duplicates. The caller has read these jobs before, so they existed. */
  readonly jobIds: readonly string[]
  readonly ms: number
  /** Which of the jobs must have finished. A job that no longer exists counts as finished. */
  readonly until: 'any' | 'all'
}

/** How the wait ended: the jobs have finished; it timed out or the caller left; or the server is stopping. */
export type JobWaitEnd = 'ended' | 'timeout' | 'stopping'

export interface JobWait {
  /** Resolves without the results: together they may be large, so they are read only when they are sent. */
  readonly ended: Promise<JobWaitEnd>
  /** Ends the wait as if it timed out. Does nothing if it has ended. */
  readonly leave: () => void
}

/**
 * Starts to wait now. It does not notice jobs that finished before the call, so read the jobs again after it. Returns null if
 * not every job can have a slot (`PendingResponses.add`).
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
