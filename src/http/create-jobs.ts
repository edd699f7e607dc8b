/** What both create routes share: they pass a request to `JobCreator` and turn its results into HTTP errors. */
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { type CreateElement, createElements, type PartLimits } from '../job/create-body.ts'
import { TIMEOUT_S } from '../job/field-rules.ts'
import type { BatchElement, SingleCreate } from '../job/request.ts'
import type { AdmittedJobs, CountElement, JobCreator } from '../queue/job-creator.ts'
import { countConversation } from '../tokens/token-counter.ts'
import { admissionError } from './errors.ts'
import { idempotencyOf } from './idempotency-key.ts'
import type { RequestCpu } from './load-shedding/request-cpu.ts'
import './request-context.ts'

/** Time limit for counting the tokens of a batch. */
const BATCH_TIMEOUT_S = 30

export interface CreateRequestsOptions {
  readonly creator: JobCreator
  readonly cpu: RequestCpu
  readonly clock: Pick<Clock, 'nowMs' | 'steadyMs'>
}

/**
 * Returns the jobs of a request to a route with `config.create`. Call it after the body was validated or a thread has read it.
 * Throws the error of a small body of the wrong shape; the thread validates large ones.
 */
export function elementsOf(request: FastifyRequest, limits: PartLimits): readonly CreateElement[] {
  if (request.largeBody !== null) return request.largeBody.elements
  if (request.validationError) throw request.validationError
  const text = request.bodyText ?? ''
  // The text would otherwise stay in memory while the caller waits.
  request.bodyText = null
  return request.route.config.create === 'batch'
    ? createElements({ kind: 'batch', text, value: request.body as readonly BatchElement[] }, limits)
    : createElements({ kind: 'single', text, value: request.body as SingleCreate }, limits)
}

export class CreateRequests {
  readonly creator: JobCreator
  readonly #options: CreateRequestsOptions

  constructor(options: CreateRequestsOptions) {
    this.creator = options.creator
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
    const { caller: owner, headers } = request
    const { creator, clock } = this.#options
    const key = headers['idempotency-key']
    const idempotency =
      key === undefined ? null : idempotencyOf(key, request, elements, clock.nowMs() + creator.idempotencyMs)
    const timeoutS = single ? (elements[0]?.timeoutS ?? TIMEOUT_S.default) : BATCH_TIMEOUT_S
    const startedMs = clock.steadyMs()
    const count: CountElement = (element, limit) =>
      this.#countTokens(request, element, limit, startedMs + timeoutS * 1000)
    const admitted = creator.admit(elements, owner, count, single)
    const admission = admitted instanceof Promise ? await admitted : admitted
    if (!admission.ok) throw admissionError(admission.error)
    return { jobs: admission.jobs, owner, idempotency }
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
}
