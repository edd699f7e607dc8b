/** Passes the jobs of create requests to `JobCreator`, and turns its results into HTTP errors. */
import './request-context.ts'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import {
  bodyFingerprint,
  type CreateBody,
  type CreateElement,
  createElements,
  type PartLimits,
} from '../job/create-body.ts'
import { TIMEOUT_S } from '../job/field-rules.ts'
import type { BatchElement, SingleCreate } from '../job/request.ts'
import type { Acceptance, AdmittedJobs, CountElement, JobCreator } from '../queue/job-creator.ts'
import type { PendingResponse, WaitEnd } from '../queue/pending-responses.ts'
import type { Idempotency } from '../store/store.ts'
import { countConversation } from '../tokens/token-counter.ts'
import { admissionError, idempotencyKeyReused, invalid } from './errors.ts'
import type { RequestCpu } from './load-shedding/request-cpu.ts'
import { validationError } from './validation-errors.ts'

/** Counting the tokens of a batch may take this long. */
const BATCH_TIMEOUT_S = 30

export interface CreateRequestsOptions {
  readonly creator: JobCreator
  readonly cpu: RequestCpu
  readonly clock: Pick<Clock, 'nowMs' | 'steadyMs'>
}

/** Handlers of routes with `config.create` call this. Throws the validation error of a small body; large ones are valid. */
export function elementsOf(request: FastifyRequest, limits: PartLimits): readonly CreateElement[] {
  if (request.largeBody !== null) {
    // If a thread has read the body, the body looks empty to Fastify and fails validation, so Fastify does not validate the
    // query.
    const validate = request.getValidationFunction('querystring')
    if (validate?.(request.query) === false) {
      const [error] = validate.errors ?? []
      if (error) throw invalid(validationError(error))
    }
    return request.largeBody.elements
  }
  if (request.validationError) throw request.validationError
  const text = request.bodyText ?? ''
  // The text need not stay in memory while the caller waits.
  request.bodyText = null
  return request.route.config.create === 'batch'
    ? createElements({ kind: 'batch', text, value: request.body as readonly BatchElement[] }, limits)
    : createElements({ kind: 'single', text, value: request.body as SingleCreate }, limits)
}

/** Resolves at the latest when the timeout is over or the caller disconnects. The job then continues. */
export function endOf(pending: PendingResponse, { raw, request }: FastifyReply): Promise<WaitEnd> {
  raw.on('close', pending.leave)
  // The caller may have disconnected while the job was being stored.
  if (request.raw.socket.destroyed) pending.leave()
  return pending.ended
}

/** The time for counting tokens is a part of the caller's `timeout`. */
interface CountedJobs extends AdmittedJobs {
  readonly countedMs: number
}

export class CreateRequests {
  readonly creator: JobCreator
  readonly #options: CreateRequestsOptions

  constructor(options: CreateRequestsOptions) {
    this.creator = options.creator
    this.#options = options
  }

  /**
   * Stores nothing. Rejects with the error of the first violated rule.
   * @param single true if the request creates one job; errors then name fields without an index
   */
  async admit(
    request: FastifyRequest,
    elements: readonly CreateElement[],
    single: boolean,
  ): Promise<CountedJobs> {
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
    const isCounted = admitted instanceof Promise
    const admission = isCounted ? await admitted : admitted
    if (!admission.ok) throw admissionError(admission.error)
    const countedMs = isCounted ? clock.steadyMs() - startedMs : 0
    return { jobs: admission.jobs, owner, idempotency, countedMs }
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

/*
 * The transaction that accepts jobs compares the fingerprints of requests with the same key.
 */
const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

function idempotencyOf(
  key: string | readonly string[],
  { route, body, largeBody }: FastifyRequest,
  elements: readonly CreateElement[],
  untilMs: number,
): Idempotency {
  if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key)) {
    throw invalid('Idempotency-Key: must be 1 to 255 visible ASCII characters')
  }
  const fingerprint =
    largeBody === null
      ? bodyFingerprint(route.url ?? '', body as CreateBody['value'], elements)
      : (largeBody.fingerprint ?? '')
  return { key, fingerprint, untilMs }
}

/** Throws if the Idempotency-Key was used with a different request, or if a quota or cap is reached. */
export function earlierJobIds(result: Exclude<Acceptance, { readonly kind: 'accepted' }>): readonly string[] {
  switch (result.kind) {
    case 'repeated':
      return result.jobIds
    case 'conflict':
      throw idempotencyKeyReused()
    default:
      throw admissionError(result)
  }
}
