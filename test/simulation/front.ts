/**
 * What the HTTP routes do between a request and the engine, without HTTP: the API key, the quotas and caps, the create, the
 * wait, the read. The order of steps is that of `src/http/messages.ts` and `src/http/create-jobs.ts`, except that a request that
 * repeats an earlier one is rejected at a quota or cap.
 */
import type { Settings } from '../../src/config/settings.ts'
import { callbackText, type Job } from '../../src/job/job.ts'
import { jobIdMaker } from '../../src/job/job-id.ts'
import type { JobRecord } from '../../src/job/job-record.ts'
import type { EnqueueOptions } from '../../src/queue/enqueue.ts'
import { capsOf, MonthlyCaps } from '../../src/queue/monthly-caps.ts'
import type { PendingResponse, WaitEnd } from '../../src/queue/pending-responses.ts'
import { bytesToStore, Quotas, quotasOf } from '../../src/queue/quotas.ts'
import type { KeyRecord } from '../../src/store/account-store.ts'
import type { JobPage } from '../../src/store/job-search-store.ts'
import type { OwnDeleted } from '../../src/store/own-job-store.ts'
import {
  type Accepted,
  type Idempotency,
  StoreUnavailable,
  UnknownAccount,
  WriteRejected,
} from '../../src/store/store.ts'
import type { KnownRequest, Ledger } from './ledger.ts'
import type { SimulatedProcess } from './node.ts'
import type { JobPlan } from './plan.ts'
import { type Connection, type ReadJobs, Reads, type WaitForJobs } from './reads.ts'
import type { World } from './world.ts'

export interface FrontOptions {
  readonly world: World
  readonly ledger: Ledger
  readonly process: SimulatedProcess
  readonly settings: Settings
}

export interface Created {
  readonly status: 200 | 202 | 401 | 403 | 409 | 503
  readonly jobIds: readonly string[]
  /** The result of a job that has ended. */
  readonly record: JobRecord | null
}

export interface CreateOptions {
  readonly request: KnownRequest
  readonly waitMs: number | null
  readonly key: string | null
  /** Called once the caller can disconnect. */
  readonly onWaiting: (pending: PendingResponse) => void
}

const FORMATS: Readonly<Record<JobPlan['format'], string>> = {
  text: '{"format":"text"}',
  json: '{"format":"json"}',
  schema:
    '{"format":"json","schema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}',
}
const IDEMPOTENCY_MS = 86_400_000

export class Front {
  readonly #options: FrontOptions
  readonly #quotas: Quotas
  readonly #caps: MonthlyCaps
  readonly #makeId: () => string
  readonly #reads: Reads
  #requests = 0
  #onIdle: (() => void)[] = []

  constructor(options: FrontOptions) {
    const { process, world, settings } = options
    this.#options = options
    this.#reads = new Reads(process, settings)
    this.#quotas = new Quotas(process)
    this.#caps = new MonthlyCaps(process.store, process.clock)
    this.#makeId = jobIdMaker(process.clock, world.random.hex)
  }

  /** Requests without a response so far. */
  get requests(): number {
    return this.#requests
  }

  /** Resolves when every request has its response. */
  close(): Promise<void> {
    return this.#requests === 0 ? Promise.resolve() : new Promise((resolve) => this.#onIdle.push(resolve))
  }

  async create(options: CreateOptions): Promise<Created> {
    return this.serve(() => this.#create(options))
  }

  /**
   * The record, or null for a job that the account cannot see. Like all methods below, undefined if the database is
   * unavailable.
   */
  read(account: string, jobId: string): Promise<JobRecord | null | undefined> {
    return this.#serve(() => this.#reads.read(account, jobId))
  }

  wait(account: string, jobs: WaitForJobs, client: Connection): Promise<ReadJobs | undefined> {
    return this.#serve(() => this.#reads.wait(account, jobs, client))
  }

  list(...args: Parameters<Reads['list']>): Promise<JobPage | undefined> {
    return this.#serve(() => this.#reads.list(...args))
  }

  cancel(...args: Parameters<Reads['cancel']>): Promise<Awaited<ReturnType<Reads['cancel']>> | undefined> {
    return this.#serve(() => this.#reads.cancel(...args))
  }

  delete(...args: Parameters<Reads['delete']>): Promise<OwnDeleted | undefined> {
    return this.#serve(() => this.#reads.delete(...args))
  }

  #serve<T>(work: () => Promise<T>): Promise<T | undefined> {
    return this.serve(() =>
      work().catch((error: unknown) => {
        if (error instanceof StoreUnavailable) return undefined
        throw error
      }),
    )
  }

  /** Shutdown waits for this work. */
  async serve<T>(work: () => Promise<T>): Promise<T> {
    this.#requests += 1
    try {
      return await work()
    } finally {
      this.#requests -= 1
      if (this.#requests === 0) for (const resolve of this.#onIdle.splice(0)) resolve()
    }
  }

  async #create({ request, waitMs, key, onWaiting }: CreateOptions): Promise<Created> {
    const { process, ledger } = this.#options
    const { pendingResponses } = process.engine
    let pending: PendingResponse | null = null
    try {
      const caller = await process.store.findKey(hashOf(request.account))
      if (caller === null) return rejected(401)
      if (caller.suspendedAtMs !== null) return rejected(403)
      const idempotency = this.#idempotencyOf(request, key)
      const jobs = request.plans.map((plan) => this.#newJob(plan, caller))
      const jobIds = jobs.map(({ id }) => id)
      ledger.newJobs(request, jobIds)
      const [first] = jobIds
      if (waitMs !== null && first !== undefined)
        pending = pendingResponses.add(first, request.account, waitMs)
      const accepted = await this.#accept(jobs, caller, { idempotency, awaited: pending !== null })
      if (accepted === 'quota' || accepted.kind === 'conflict') {
        pending?.leave()
        return rejected(accepted === 'quota' ? 403 : 409)
      }
      if (accepted.kind === 'repeated') {
        pending?.leave()
        return await this.#awaitRepeated(accepted.jobIds, { request, waitMs, key, onWaiting })
      }
      if (pending === null) return { status: 202, jobIds, record: null }
      onWaiting(pending)
      return await this.#answer(await pending.ended, { request, waitMs: null, key, onWaiting }, jobIds)
    } catch (error) {
      pending?.leave()
      if (error instanceof UnknownAccount) return rejected(401)
      if (error instanceof StoreUnavailable || error instanceof WriteRejected) return rejected(503)
      throw error
    }
  }

  /** A repeated request waits for the earlier job as it would for a new one. */
  async #awaitRepeated(jobIds: readonly string[], options: CreateOptions): Promise<Created> {
    const { process } = this.#options
    const { request, waitMs, onWaiting } = options
    const [jobId] = jobIds
    if (waitMs === null || jobId === undefined) return { status: 202, jobIds, record: null }
    const pending = process.engine.pendingResponses.add(jobId, request.account, waitMs)
    const record = await this.#reads.read(request.account, jobId).catch((error: unknown) => {
      pending?.leave()
      throw error
    })
    const again = { ...options, waitMs: null }
    if (record !== null && pending !== null && !isEnd(record.status)) {
      onWaiting(pending)
      return await this.#answer(await pending.ended, again, jobIds)
    }
    pending?.leave()
    if (record === null) return await this.#create(again)
    return { status: isEnd(record.status) ? 200 : 202, jobIds, record: isEnd(record.status) ? record : null }
  }

  /** A job that vanishes during the wait is created again. */
  #answer(end: WaitEnd, again: CreateOptions, jobIds: readonly string[]): Created | Promise<Created> {
    if (end.kind === 'settled') return { status: 200, jobIds, record: end.record }
    return end.kind === 'vanished' ? this.#create(again) : { status: 202, jobIds, record: null }
  }

  async #accept(
    jobs: readonly Job[],
    caller: KeyRecord,
    options: EnqueueOptions,
  ): Promise<Accepted | 'quota'> {
    const { process } = this.#options
    const { tiers, enqueuer } = process.engine
    const { account } = caller
    const tier = tiers.of(caller.tier)
    const [limits, caps] = [quotasOf(account, tier, caller.caps), capsOf(account, tier, caller.caps)]
    const bytes = limits === null || limits.storedBytes === null ? 0 : bytesToStore(jobs)
    if (limits !== null && (await this.#quotas.reserve(account, limits, jobs.length, bytes)) !== null)
      return 'quota'
    let stored = false
    try {
      const reserved = caps === null ? null : await this.#caps.reserve(account, caps, jobs.length)
      if (reserved?.kind === 'monthly cap') return 'quota'
      try {
        const accepted = await enqueuer.enqueue(jobs, options)
        stored = accepted.kind === 'accepted'
        return accepted
      } finally {
        reserved?.end(stored)
      }
    } finally {
      if (limits !== null) this.#quotas.end(account, jobs.length, bytes, stored)
    }
  }

  #idempotencyOf({ plans }: KnownRequest, key: string | null): Idempotency | null {
    if (key === null) return null
    const fingerprint = plans.map(({ tag }) => tag).join(' ')
    return { key, fingerprint, untilMs: this.#options.process.clock.nowMs() + IDEMPOTENCY_MS }
  }

  #newJob({ tag, format, model, size, hasCallback, cacheTtlMs }: JobPlan, { account, tier }: KeyRecord): Job {
    const messages = [{ role: 'user', content: `${tag} ${'x'.repeat(size)}` }]
    const url = `https://${account}.example/hook`
    return {
      id: this.#makeId(),
      account,
      tier,
      model,
      messagesJson: JSON.stringify(messages),
      responseFormatJson: FORMATS[format],
      cacheTtlMs,
      callbackJson: hasCallback ? callbackText({ url, headers: {}, payloadJson: JSON.stringify(tag) }) : null,
      createdAtMs: this.#options.process.clock.nowMs(),
      inputTokens: Math.ceil(size / 4) + 1,
    }
  }
}

function isEnd(status: JobRecord['status']): boolean {
  return status === 'completed' || status === 'failed'
}

function rejected(status: 401 | 403 | 409 | 503): Created {
  return { status, jobIds: [], record: null }
}

/** The hash of the account's only key. */
export function hashOf(account: string): string {
  return `key of ${account}`
}
