/**
 * A job that this node holds, and whether it is stored. A job that a caller waits for may be executed before it is stored
 * (the early write): nothing has been promised yet, and nobody sees an outcome before it is stored. If the answer comes
 * quickly, job and outcome are stored in one write.
 *
 * ```
 *  unsent ──── the job is sent alone ───────────┐
 *    │                                          ▼
 *    └──────── sent with its outcome ──────▶ storing ──▶ stored
 *                                               │
 *                                               └──────▶ rejected: the job never existed
 * ```
 *
 * A job that was stored before its execution starts, because it was claimed or handed off, is `stored` from the start.
 */
import type { ClaimedJob } from '../job/job.ts'
import { Stop } from '../job/stop.ts'
import type { Claim } from '../store/node-store.ts'
import type { Accepted } from '../store/store.ts'

export type StorageState = 'unsent' | 'storing' | 'stored' | 'rejected'

const ACCEPTED: Accepted = { kind: 'accepted' }
const STORED = Promise.resolve(ACCEPTED)

export class HeldJob {
  readonly job: ClaimedJob
  /** Ends the execution early. */
  readonly stop = new Stop()
  state: StorageState
  /** Resolves when the job is durable; rejects with the store's error if it was never stored. */
  readonly accepted: Promise<Accepted>
  readonly #settleAccepted: Pick<PromiseWithResolvers<Accepted>, 'resolve' | 'reject'> | null

  constructor(job: ClaimedJob, state: 'unsent' | 'stored') {
    this.job = job
    this.state = state
    const unsent = state === 'unsent' ? Promise.withResolvers<Accepted>() : null
    this.#settleAccepted = unsent
    this.accepted = unsent?.promise ?? STORED
  }

  get claim(): Claim {
    return { jobId: this.job.id, attempt: this.job.attempt }
  }

  /** The single write that stores the job, alone or with its outcome, has started. Call it while the job is `unsent`. */
  sent(): void {
    this.state = 'storing'
  }

  /** The write has ended. */
  stored(): void {
    this.state = 'stored'
    this.#settleAccepted?.resolve(ACCEPTED)
  }

  /** The write has failed. */
  rejected(error: unknown): void {
    this.state = 'rejected'
    this.stop.now('lost')
    this.#settleAccepted?.reject(error)
  }
}
