/** The part that both create routes share: turns a body of the right shape into durable jobs, or an error. */
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import {
  bodyFingerprint,
  type CreateBody,
  type CreateElement,
  createElements,
  type PartLimits,
} from '../job/create-body.ts'
import { TIMEOUT_S } from '../job/field-bounds.ts'
import type { Job } from '../job/job.ts'
import type { BatchElement, SingleCreate } from '../job/request.ts'
import { type AdmissionRules, admit, type CountElement } from '../queue/admission.ts'
import type { EnqueueOptions, Enqueuer } from '../queue/enqueue.ts'
import type { Caps, MonthlyCaps } from '../queue/monthly-caps.ts'
import { bytesToStore, type QuotaLimits, type QuotaReached, type Quotas } from '../queue/quotas.ts'
import type { Accepted, Earlier, Idempotency, Store } from '../store/store.ts'
import { countConversation } from '../tokens/token-counter.ts'
import type { Caller } from './authentication.ts'
import { accountSuspended, admissionError, idempotencyKeyReused, invalid } from './errors.ts'
import type { RequestCpu } from './load-shedding/request-cpu.ts'
import './request-context.ts'

/** Time limit for counting the tokens of a batch. */
const BATCH_TIMEOUT_S = 30

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

export interface JobCreatorOptions {
  readonly enqueuer: Enqueuer
  readonly store: Pick<Store, 'findEarlier'>
  readonly rules: AdmissionRules
  readonly cpu: RequestCpu
  readonly monthlyCaps: MonthlyCaps
  readonly quotas: Quotas
  readonly onQuotaReached: (reached: QuotaReached) => void
  readonly clock: Clock
  /** How long an Idempotency-Key is remembered, unless its jobs expire earlier. */
  readonly idempotencyMs: number
  readonly retentionMs: number
}

/** Jobs that may be accepted. */
export interface AdmittedJobs {
  readonly jobs: readonly Job[]
  readonly caller: Caller
  readonly idempotency: Idempotency | null
}

/**
 * The jobs of a request to a route with `config.create`, after its body has been validated or read by a thread. Throws the
 * error of a small body of the wrong shape; the thread validates large ones.
 */
export function elementsOf(request: FastifyRequest, limits: PartLimits): readonly CreateElement[] {
  if (request.largeBody !== null) return request.largeBody.elements
  if (request.validationError) throw request.validationError
  const text = request.bodyText ?? ''
  // The text is no longer needed, and would otherwise be kept while the caller waits.
  request.bodyText = null
  return request.route.config.create === 'batch'
    ? createElements({ kind: 'batch', text, value: request.body as readonly BatchElement[] }, limits)
    : createElements({ kind: 'single', text, value: request.body as SingleCreate }, limits)
}

export class JobCreator {
  readonly #options: JobCreatorOptions

  constructor(options: JobCreatorOptions) {
    this.#options = options
  }

  /**
   * Rejects with the error of the first rule that an element violates. Nothing is stored yet.
   * @param single whether the one element is a single create, whose fields are named without an index
   */
  async admit(
    request: FastifyRequest,
    elements: readonly CreateElement[],
    single: boolean,
  ): Promise<AdmittedJobs> {
    const { caller, headers } = request
    const { rules, clock } = this.#options
    const key = headers['idempotency-key']
    const idempotency = key === undefined ? null : this.#idempotencyOf(key, request, elements)
    if (caller.suspended) throw accountSuspended(caller.account)
    const timeoutS = single ? (elements[0]?.timeoutS ?? TIMEOUT_S.default) : BATCH_TIMEOUT_S
    const startedMs = clock.steadyMs()
    const count: CountElement = (element, limit) =>
      this.#countTokens(request, element, limit, startedMs + timeoutS * 1000)
    const admitted = admit(elements, caller, rules, count, single)
    const admission = admitted instanceof Promise ? await admitted : admitted
    if (!admission.ok) throw admissionError(admission.error)
    return { jobs: admission.jobs, caller, idempotency }
  }

  /**
   * Resolves when the jobs are durable. If they repeat an earlier request with the same Idempotency-Key, nothing is stored
   * (`earlierJobIds`). Rejects with the error of a quota or cap that is reached.
   * @param awaited whether the request waits for the outcome
   */
  accept({ jobs, caller, idempotency }: AdmittedJobs, awaited: boolean): Promise<Accepted> {
    const { quotas, caps, account } = caller
    const options = { idempotency, awaited }
    if (quotas) return this.#acceptWithinQuotas(quotas, caller, jobs, options)
    if (caps) return this.#acceptWithinCaps(caps, account, jobs, options)
    return this.#options.enqueuer.enqueue(jobs, options)
  }

  async #acceptWithinQuotas(
    limits: QuotaLimits,
    caller: Caller,
    jobs: readonly Job[],
    options: EnqueueOptions,
  ): Promise<Accepted> {
    const { quotas, onQuotaReached, enqueuer } = this.#options
    const { account, caps } = caller
    const bytes = limits.storedBytes === null ? 0 : bytesToStore(jobs)
    const reserved = quotas.reserve(account, limits, jobs.length, bytes)
    const reached = reserved instanceof Promise ? await reserved : reserved
    if (reached !== null) {
      const earlier = await this.#findEarlier(account, options)
      if (earlier !== null) return earlier
      onQuotaReached(reached)
      throw admissionError(reached)
    }
    let stored = false
    try {
      const accepted = caps
        ? await this.#acceptWithinCaps(caps, account, jobs, options)
        : await enqueuer.enqueue(jobs, options)
      stored = accepted.kind === 'accepted'
      return accepted
    } finally {
      quotas.end(account, jobs.length, bytes, stored)
    }
  }

  async #acceptWithinCaps(
    caps: Caps,
    account: string,
    jobs: readonly Job[],
    options: EnqueueOptions,
  ): Promise<Accepted> {
    const { monthlyCaps, enqueuer } = this.#options
    const reserved = await monthlyCaps.reserve(account, caps, jobs.length)
    if (reserved.kind === 'monthly cap') {
      const earlier = await this.#findEarlier(account, options)
      if (earlier !== null) return earlier
      throw admissionError(reserved)
    }
    let stored = false
    try {
      const accepted = await enqueuer.enqueue(jobs, options)
      stored = accepted.kind === 'accepted'
      return accepted
    } finally {
      reserved.end(stored)
    }
  }

  /** A request that repeats an earlier one adds nothing, so no limit rejects it. */
  async #findEarlier(account: string, { idempotency }: EnqueueOptions): Promise<Earlier | null> {
    const { store, clock } = this.#options
    return idempotency && store.findEarlier(account, idempotency, clock.nowMs())
  }

  #countTokens(
    request: FastifyRequest,
    element: CreateElement,
    limit: number,
    untilMs: number,
  ): ReturnType<CountElement> {
    const { cpu, clock } = this.#options
    return cpu.use(request, Math.max(0, untilMs - clock.steadyMs()), (run) =>
      countConversation(element, limit, (jsonTexts, enough) => run('count tokens', { jsonTexts, enough })),
    )
  }

  #idempotencyOf(
    key: string | readonly string[],
    { route, body, largeBody }: FastifyRequest,
    elements: readonly CreateElement[],
  ): Idempotency {
    if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key)) {
      throw invalid('Idempotency-Key: must be 1 to 255 visible ASCII characters')
    }
    const { clock, idempotencyMs, retentionMs } = this.#options
    const untilMs = clock.nowMs() + Math.min(idempotencyMs, retentionMs)
    const fingerprint =
      largeBody === null
        ? bodyFingerprint(route.url ?? '', body as CreateBody['value'], elements)
        : (largeBody.fingerprint ?? '')
    return { key, fingerprint, untilMs }
  }
}

/**
 * The IDs of the earlier request's jobs if these repeat it, otherwise null. @throws the error of a key that was used with a
 * different request
 */
export function earlierJobIds(accepted: Accepted): readonly string[] | null {
  if (accepted.kind === 'conflict') throw idempotencyKeyReused()
  return accepted.kind === 'repeated' ? accepted.jobIds : null
}
