/** Reads jobs for responses. Large results are loaded only after their bytes are counted. */
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import type { JobRecord } from '../job/job-record.ts'
import type { Expiry } from '../store/expiry.ts'
import type { ReadJob, Store } from '../store/store.ts'
import { LARGE_ANSWER, type LargeAnswers } from './large-answers.ts'
import './request-context.ts'

export interface JobReaderOptions {
  readonly store: Pick<Store, 'read'>
  readonly clock: Pick<Clock, 'nowMs'>
  readonly retentionMs: number
  readonly answers: Pick<LargeAnswers, 'reserve'>
}

export class JobReader {
  readonly #options: JobReaderOptions

  constructor(options: JobReaderOptions) {
    this.#options = options
  }

  expiry(): Expiry {
    return { nowMs: this.#options.clock.nowMs(), retentionMs: this.#options.retentionMs }
  }

  /**
   * The job as the caller may see it; null if it does not exist. Throws an error if the result is too large to be sent now.
   */
  async read(request: FastifyRequest, jobId: string): Promise<JobRecord | null> {
    const { store, answers } = this.#options
    const { account } = request.caller
    const expiry = this.expiry()
    const record = await store.read(account, jobId, expiry, LARGE_ANSWER)
    if (!record || record.omittedBytes === 0) return record
    await answers.reserve(request, record.omittedBytes)
    return store.read(account, jobId, expiry)
  }

  /**
   * The same for each of several jobs, including results and errors that are so small that even all of them together need not
   * be counted.
   */
  states({ caller }: FastifyRequest, jobIds: readonly string[]): Promise<(ReadJob | null)[]> {
    const expiry = this.expiry()
    const small = Math.floor(LARGE_ANSWER / jobIds.length)
    return Promise.all(jobIds.map((jobId) => this.#options.store.read(caller.account, jobId, expiry, small)))
  }

  /** Loads the results and errors that their states omit, in order. Throws like `read`. */
  async load(request: FastifyRequest, states: readonly ReadJob[]): Promise<(JobRecord | null)[]> {
    const { store, answers } = this.#options
    const { account } = request.caller
    const bytes = states.reduce((sum, { omittedBytes }) => sum + omittedBytes, 0)
    if (bytes > LARGE_ANSWER) await answers.reserve(request, bytes)
    const expiry = this.expiry()
    return Promise.all(
      states.map((state) => (state.omittedBytes === 0 ? state : store.read(account, state.id, expiry))),
    )
  }
}

export function hasEnded({ status }: JobRecord): boolean {
  return status === 'completed' || status === 'failed'
}
