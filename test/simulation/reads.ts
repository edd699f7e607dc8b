/**
 * Simulates the HTTP routes for existing jobs, without HTTP: reads of one or several jobs, at once or with a wait, lists, and
 * callers' actions on their own jobs. The steps have the order of `src/http/read-jobs.ts`, `list-jobs.ts` and
 * `own-job-actions.ts`. The wait itself is the real `JobAwaiter`.
 */
import type { Settings } from '../../src/config/settings.ts'
import { LARGE_ANSWER } from '../../src/http/large-answers.ts'
import { type AwaitedReply, JobAwaiter } from '../../src/http/read-jobs.ts'
import { hasEnded } from '../../src/job/job-record.ts'
import type { Expiry } from '../../src/store/expiry.ts'
import type { JobPage, JobSearch } from '../../src/store/job-search-store.ts'
import type { Cancelled } from '../../src/store/operator-store.ts'
import type { OwnDeleted } from '../../src/store/own-job-store.ts'
import type { ReadJob } from '../../src/store/store.ts'
import type { SimulatedProcess } from './node.ts'
import { MODELS } from './plan.ts'

/** Each token costs one millionth. */
const INPUT_PRICES = new Map(Object.keys(MODELS).map((model) => [model, 1]))

export interface WaitForJobs {
  readonly jobIds: readonly string[]
  readonly waitS: number
  readonly until: 'any' | 'all'
}

export interface ReadJobs {
  /** The order is that of the IDs. Null stands for a job that the account cannot see. */
  readonly states: readonly (ReadJob | null)[]
  readonly wasCut: boolean
}

export class Connection implements AwaitedReply {
  readonly #onClose: (() => void)[] = []
  readonly raw = { on: (_event: 'close', listener: () => void) => void this.#onClose.push(listener) }
  readonly #socket = { destroyed: false }
  readonly request = { raw: { socket: this.#socket } }

  header(): void {}

  get hasClosed(): boolean {
    return this.#socket.destroyed
  }

  close(): void {
    this.#socket.destroyed = true
    for (const listener of this.#onClose.splice(0)) listener()
  }
}

export class Reads {
  readonly #process: SimulatedProcess
  readonly #awaiter: JobAwaiter
  readonly #retentionMs: number

  constructor(process: SimulatedProcess, { jobs }: Settings) {
    const { store, engine } = process
    this.#process = process
    this.#retentionMs = jobs.retention_seconds * 1000
    this.#awaiter = new JobAwaiter({
      store,
      pendingResponses: engine.pendingResponses,
      isRunning: (jobId) => engine.worker.isRunning(jobId),
    })
  }

  get #expiry(): Expiry {
    return { nowMs: this.#process.clock.nowMs(), retentionMs: this.#retentionMs }
  }

  /** Returns null for a job that the account cannot see. */
  async read(account: string, jobId: string): Promise<ReadJob | null> {
    const { store } = this.#process
    const expiry = this.#expiry
    const record = await store.read(account, jobId, expiry, LARGE_ANSWER)
    return record === null || record.omittedBytes === 0 ? record : store.read(account, jobId, expiry)
  }

  async wait(account: string, jobs: WaitForJobs, client: Connection): Promise<ReadJobs> {
    const { jobIds, waitS, until } = jobs
    const states = await this.#states(account, jobIds)
    let wasCut = false
    if (waitS > 0 && !areOver(states, until)) {
      const open = jobIds.filter((_, index) => isOpen(states[index]))
      const haveEnded = async () => areOver(await this.#states(account, open), until)
      wasCut = await this.#awaiter.wait({ caller: { account } }, client, {
        jobIds: open,
        until,
        waitS,
        haveEnded,
      })
      const now = (await this.#states(account, open)).values()
      for (const [index, state] of states.entries())
        if (isOpen(state)) states[index] = now.next().value ?? null
    }
    return { states: await this.#load(account, states), wasCut }
  }

  list(account: string, search: Omit<JobSearch, 'account' | 'expiry'>): Promise<JobPage> {
    return this.#process.store.searchJobs({ ...search, account, expiry: this.#expiry })
  }

  async cancel(
    account: string,
    jobId: string,
    countInput: (messagesJson: string) => number,
  ): Promise<{ readonly result: Cancelled; readonly record: ReadJob | null }> {
    const { store, clock, engine } = this.#process
    const messagesJson = await store.heldMessages(account, jobId, LARGE_ANSWER)
    const inputTokens = messagesJson === null ? null : countInput(messagesJson)
    const inputPrices = inputTokens === null ? {} : { inputPrices: INPUT_PRICES }
    const cancel = { account, jobId, nowMs: clock.nowMs(), inputTokens, ...inputPrices }
    const result = await store.cancelOwnJob(cancel)
    if (result === 'cancelled') await engine.cancellation.cancelled(jobId)
    return { result, record: result === 'unknown' ? null : await this.read(account, jobId) }
  }

  delete(account: string, jobId: string, dropCallback: boolean): Promise<OwnDeleted> {
    return this.#process.store.deleteOwnJob({ account, jobId, dropCallback, expiry: this.#expiry })
  }

  #states(account: string, jobIds: readonly string[]): Promise<(ReadJob | null)[]> {
    const expiry = this.#expiry
    const small = Math.floor(LARGE_ANSWER / jobIds.length)
    return Promise.all(jobIds.map((id) => this.#process.store.read(account, id, expiry, small)))
  }

  #load(account: string, states: readonly (ReadJob | null)[]): Promise<(ReadJob | null)[]> {
    const { store } = this.#process
    const expiry = this.#expiry
    return Promise.all(
      states.map((state) =>
        state && state.omittedBytes > 0 ? store.read(account, state.id, expiry) : state,
      ),
    )
  }
}

function isOpen(state: ReadJob | null | undefined): boolean {
  return state !== null && state !== undefined && !hasEnded(state)
}

function areOver(states: readonly (ReadJob | null)[], until: 'any' | 'all'): boolean {
  return until === 'all' ? !states.some(isOpen) : !states.every(isOpen)
}
