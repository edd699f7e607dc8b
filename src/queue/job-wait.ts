/**
 * A request that waits for jobs that exist already, until any or all of them have ended. For each job it is one pending
 * response, so such requests share the slots of those that create jobs.
 */
import type { PendingResponse, PendingResponses } from './pending-responses.ts'

export interface JobsToAwait {
  readonly account: string
  /** At least one, each once. */
  readonly jobIds: readonly string[]
  readonly ms: number
  /** Which of them must have ended. A job that no longer exists has ended. */
  readonly until: 'any' | 'all'
}

/** How a wait ended: its jobs have ended, its time is over or it was left, or the server stops. */
export type JobWaitEnd = 'ended' | 'timeout' | 'stopping'

export interface JobWait {
  /** Holds no result: those of many jobs together may be large, and are read once they are sent. */
  readonly ended: Promise<JobWaitEnd>
  /** Ends the wait as if its time were over. Does nothing to a wait that has ended. */
  readonly leave: () => void
}

/**
 * Waits from now on: what ended before the call is not noticed, so read the jobs again after it. Null when not all of them may be
 * waited for (`PendingResponses.add`); then none is.
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
    const pending = pendingResponses.add(jobId, account, ms)
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
