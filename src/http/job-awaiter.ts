/** Lets requests wait until jobs have finished, on this node or another. */
import type { FastifyReply } from 'fastify'
import Type from 'typebox'
import { wholeMs } from '../clock.ts'
import { type JobsToAwait, type JobWait, type JobWaitEnd, waitForJobs } from '../queue/job-wait.ts'
import type { PendingResponses } from '../queue/pending-responses.ts'
import type { Store } from '../store/store.ts'
import './request-context.ts'

/** The longest wait of a read, in seconds: as long as that of a single create (SPEC §2.1). */
export const MAX_WAIT_S = 120
/** The `wait` parameter of reads. */
export const waitParameter = Type.Optional(
  Type.Number({
    minimum: 0,
    maximum: MAX_WAIT_S,
    default: 0,
    examples: [60],
    description:
      'How many seconds to wait for the job to finish before the current state is returned. The response has Retry-After if the server did not wait that long because too many requests are waiting or because it is shutting down.',
  }),
)
/** When to ask again, in seconds, after a wait that was impossible or cut short. */
const RETRY_AFTER_S = '2'

export interface JobAwaiterOptions {
  readonly pendingResponses: Pick<PendingResponses, 'add'>
  readonly store: Pick<Store, 'announceWaits'>
  /** Whether this node runs the job, so that no other node will finish it. */
  readonly isRunning: (jobId: string) => boolean
}

export interface AwaitedJobs extends Pick<JobsToAwait, 'jobIds' | 'until'> {
  readonly waitS: number
  /** Reads the jobs again, because jobs that finished before the wait started would otherwise go unnoticed. */
  readonly haveEnded: () => Promise<boolean>
}

/** The part of a request that a wait needs. */
export interface AwaitingRequest {
  readonly caller: { readonly account: string }
}

/** The part of a reply that a wait needs: the connection of its client, and a header. */
export interface AwaitedReply {
  readonly raw: { on(event: 'close', listener: () => void): unknown }
  readonly request: { readonly raw: { readonly socket: { readonly destroyed: boolean } } }
  header(name: string, value: string): unknown
}

export class JobAwaiter {
  readonly #options: JobAwaiterOptions

  constructor(options: JobAwaiterOptions) {
    this.#options = options
  }

  /**
   * Resolves when the jobs have finished, the time is over, or the client is gone. Resolves with true, possibly at once, if
   * the server cannot wait (as long): unless the jobs have finished, the response then has Retry-After (`askAgainLater`).
   */
  async wait(request: AwaitingRequest, reply: AwaitedReply, awaited: AwaitedJobs): Promise<boolean> {
    const { jobIds, until, waitS } = awaited
    const { account } = request.caller
    const { pendingResponses } = this.#options
    const wait = waitForJobs(pendingResponses, { account, jobIds, ms: wholeMs(waitS), until })
    if (wait === null) return true
    const {
      raw,
      request: {
        raw: { socket },
      },
    } = reply
    // Ends the wait if the client hangs up.
    raw.on('close', wait.leave)
    if (socket.destroyed) wait.leave()
    try {
      if ((await this.#endOf(wait, awaited)) !== 'stopping') return false
      reply.header('connection', 'close')
      return true
    } finally {
      wait.leave()
    }
  }

  async #endOf(wait: JobWait, { jobIds, haveEnded }: AwaitedJobs): Promise<JobWaitEnd> {
    const { store, isRunning } = this.#options
    const announced = store.announceWaits(jobIds.filter((jobId) => !isRunning(jobId)))
    // If the database does not respond, nobody waits longer than requested.
    const end = await Promise.race([announced.then(() => null), wait.ended])
    if (end !== null) return end
    return (await haveEnded()) ? 'ended' : wait.ended
  }
}

/** Adds Retry-After to the response of a wait that was impossible or cut short. */
export function askAgainLater(reply: FastifyReply): void {
  reply.header('retry-after', RETRY_AFTER_S)
}
