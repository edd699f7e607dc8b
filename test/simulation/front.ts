/**
 * Simulates the HTTP layer without HTTP: does what the routes do between a request and the engine (API key, create, wait,
 * read). Uses the routes' own code to look up keys and create jobs, in the order of `src/http/messages.ts`.
 */
import { createHash } from 'node:crypto'
import { makeKey } from '../../src/accounts/key.ts'
import type { Settings } from '../../src/config/settings.ts'
import { type Authentication, createAuthentication, isCaller } from '../../src/http/authentication.ts'
import { bodyFingerprint, type CreateBody, createElements } from '../../src/job/create-body.ts'
import type { JobRecord } from '../../src/job/job-record.ts'
import type { AdmittedJobs } from '../../src/queue/job-creator.ts'
import type { PendingResponse, WaitEnd } from '../../src/queue/pending-responses.ts'
import type { JobPage } from '../../src/store/job-search-store.ts'
import type { OwnDeleted } from '../../src/store/own-job-store.ts'
import { StoreUnavailable, UnknownAccount } from '../../src/store/store.ts'
import { type KnownRequest, type Ledger, TOO_EARLY } from './ledger.ts'
import type { CreateAttempt, Rejection } from './limits.ts'
import type { SimulatedProcess } from './node.ts'
import { type Connection, type ReadJobs, Reads, type WaitForJobs } from './reads.ts'
import type { World } from './world.ts'

export interface FrontOptions {
  readonly world: World
  readonly ledger: Ledger
  readonly process: SimulatedProcess
  readonly settings: Settings
}

export type Created =
  | {
      readonly status: 200 | 202
      readonly jobIds: readonly string[]
      readonly record: JobRecord | null
    }
  | Rejected

interface Rejected {
  readonly rejection: Rejection
}

export interface CreateOptions {
  readonly request: KnownRequest
  readonly waitMs: number | null
  readonly key: string | null
  /** The front calls this once the caller can disconnect. `leave` disconnects the caller. */
  readonly onWaiting: (leave: () => void) => void
}

const FORMATS = {
  text: { format: 'text' },
  json: { format: 'json' },
  schema: {
    format: 'json',
    schema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  },
} as const

export class Front {
  readonly #options: FrontOptions
  readonly #authentication: Authentication
  readonly #reads: Reads
  #requests = 0
  #onIdle: (() => void)[] = []

  constructor(options: FrontOptions) {
    const { process, settings } = options
    const { store, clock, engine } = process
    this.#options = options
    this.#reads = new Reads(process, settings)
    this.#authentication = createAuthentication({
      store,
      tiers: engine.tiers,
      clock,
      maxUnknownKeys: Number.POSITIVE_INFINITY,
      onRejected: () => {},
      onError: () => {},
    })
  }

  get requests(): number {
    return this.#requests
  }

  close(): Promise<void> {
    return this.#requests === 0 ? Promise.resolve() : new Promise((resolve) => this.#onIdle.push(resolve))
  }

  async create(options: CreateOptions): Promise<Created> {
    return this.serve(() => this.#create(options))
  }

  /**
   * Returns null for a job that the account cannot see. This method and the methods below return undefined if the database is
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

  async serve<T>(work: () => Promise<T>): Promise<T> {
    this.#requests += 1
    try {
      return await work()
    } finally {
      this.#requests -= 1
      if (this.#requests === 0) for (const resolve of this.#onIdle.splice(0)) resolve()
    }
  }

  async #create(options: CreateOptions): Promise<Created> {
    const { process, ledger } = this.#options
    const { creator } = process.engine
    const attempt = ledger.limits.begin(options.request, process.id)
    try {
      const admitted = await this.#admit(options, attempt)
      if ('rejection' in admitted) return admitted
      const { jobs } = admitted
      const result = await creator.accept(admitted, options.waitMs)
      ledger.limits.end(attempt)
      const { waitMs, onWaiting } = options
      if (result.kind === 'accepted') {
        const jobIds = jobs.map(({ id }) => id)
        if (result.pending === null) return { status: 202, jobIds, record: null }
        return await this.#answer(result.pending, options, jobIds, onWaiting)
      }
      if (result.kind !== 'repeated') return this.#rejected(attempt, result)
      const { jobIds } = result
      const [jobId] = jobIds
      if (waitMs === null || jobId === undefined) return { status: 202, jobIds, record: null }
      const { account } = options.request
      const read = () => this.#reads.read(account, jobId)
      const wait = await creator.awaitEarlier(jobId, account, waitMs, read)
      if ('ended' in wait) return await this.#answer(wait, options, jobIds, onWaiting)
      return await this.#ended(wait, options, jobIds)
    } catch (error) {
      if (error instanceof UnknownAccount) return this.#rejected(attempt, { kind: 'unknown account' })
      if (error instanceof StoreUnavailable) return this.#rejected(attempt, { kind: 'unavailable' })
      throw error
    } finally {
      ledger.limits.end(attempt)
    }
  }

  #rejected(attempt: CreateAttempt, rejection: Rejection): Rejected {
    this.#options.ledger.limits.rejected(attempt, rejection)
    return { rejection }
  }

  async #admit({ request, key }: CreateOptions, attempt: CreateAttempt): Promise<AdmittedJobs | Rejected> {
    const { process, ledger } = this.#options
    const { creator } = process.engine
    const headers = { 'x-api-key': keyOf(request.account) }
    const owner = await this.#authentication.callerOf({ headers, ip: '192.0.2.1' })
    if (!isCaller(owner)) return this.#rejected(attempt, { kind: 'unknown account' })
    const body = bodyOf(request)
    const elements = createElements(body, NO_LIMITS)
    const fingerprint = bodyFingerprint(body.kind, body.value, elements)
    const idempotency =
      key === null ? null : { key, fingerprint, untilMs: process.clock.nowMs() + creator.idempotencyMs }
    const admission = await creator.admit(elements, owner, countNothing, !request.isBatch)
    if (!admission.ok) return this.#rejected(attempt, admission.error)
    const { jobs } = admission
    ledger.newJobs(
      request,
      jobs.map(({ id }) => id),
    )
    ledger.limits.reserve(attempt, jobs)
    return { jobs, owner, idempotency }
  }

  async #answer(
    pending: PendingResponse,
    options: CreateOptions,
    jobIds: readonly string[],
    onWaiting: CreateOptions['onWaiting'],
  ): Promise<Created> {
    const { world, ledger } = this.#options
    const { waitMs } = options
    const sinceMs = world.nowMs
    let hasLeft = false
    onWaiting(() => {
      hasLeft = true
      pending.leave()
    })
    const end = await pending.ended
    const waitedMs = world.nowMs - sinceMs
    // The time to store the job is part of `waitMs`, so the rest of that time may be shorter.
    if (end.kind === 'timeout' && !hasLeft && waitMs !== null && waitedMs < waitMs - STORED_WITHIN_MS) {
      if (ledger.wasCalmSince(sinceMs - STORED_WITHIN_MS))
        ledger.violate(TOO_EARLY, `a create with ${waitMs} ms ended after ${waitedMs} ms: ${jobIds}`)
    }
    return this.#ended(end, options, jobIds)
  }

  /** A job that vanished while the request waited is created again. */
  #ended(end: WaitEnd, options: CreateOptions, jobIds: readonly string[]): Created | Promise<Created> {
    if (end.kind === 'settled') return { status: 200, jobIds, record: end.record }
    if (end.kind === 'vanished') return this.#create({ ...options, waitMs: null })
    return { status: 202, jobIds, record: null }
  }
}

/** The database stores a job within this time if nothing disturbs it. */
const STORED_WITHIN_MS = 1000
/** No job of a history reaches these limits. */
const NO_LIMITS = { payloadBytes: 1e9, schemaBytes: 1e9 }

/** No tier of a history limits the tokens of a job, so nothing may be counted. */
const countNothing = () => {
  throw new Error('the tokens of a job were counted')
}

function bodyOf({ account, plans, isBatch }: KnownRequest): CreateBody {
  const objects = plans.map(
    ({ tag, format, model, size, hasCallback, cacheTtlMs, priority, completeWithinS }) => ({
      model,
      messages: [{ role: 'user' as const, content: `${tag} ${'x'.repeat(size)}` }],
      response_format: FORMATS[format],
      message_cache_ttl: cacheTtlMs / 1000,
      ...(priority && { priority }),
      ...(completeWithinS !== undefined && { complete_within: completeWithinS }),
      ...(hasCallback && {
        callback: { callback_url: `https://${account}.example/hook`, callback_payload: { tag } },
      }),
    }),
  )
  const [single] = objects
  if (isBatch || single === undefined) return { kind: 'batch', text: JSON.stringify(objects), value: objects }
  return { kind: 'single', text: JSON.stringify(single), value: single }
}

export function keyOf(account: string): string {
  let round = 0
  return makeKey(() => createHash('sha256').update(`${account} ${round++}`).digest())
}
