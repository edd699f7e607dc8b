/**
 * Creates the job of a request below `/v1`, and holds the request until the job has ended or the server must answer. A job whose
 * caller left continues.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type CreateRequests, earlierJobIds } from '../http/create-jobs.ts'
import { NotAdmitted } from '../http/errors.ts'
import type { LargeAnswers } from '../http/large-answers.ts'
import type { JobReader } from '../http/read-jobs.ts'
import type { RequestBodies } from '../http/request-bodies.ts'
import type { PartLimits } from '../job/create-body.ts'
import type { JobRecord } from '../job/job-record.ts'
import type { SingleCreate } from '../job/request.ts'
import { hashOfRequest } from '../job/request-hash.ts'
import type { EqualRequest, HeldRequests, Hold } from '../queue/held-requests.ts'
import type { PendingResponse, WaitEnd } from '../queue/pending-responses.ts'
import { holdMs, isRetry } from './deadline.ts'
import {
  cannotWait,
  invalidField,
  jobVanished,
  keyConflict,
  noSuchModel,
  notFinished,
  type V1Error,
} from './errors.ts'

import { elementsOfJob } from './read-body.ts'

const NO_JOB = { model: '' } as const
/** `true` lets the request read and fill the response cache. */
const CACHE_HEADER = 'x-parley-cache'

export interface HeldCreatesOptions {
  readonly requests: CreateRequests
  readonly reader: JobReader
  readonly held: HeldRequests
  readonly answers: Pick<LargeAnswers, 'mayHold'>
  /** Whether jobs with this model use the response cache; a header of the request may ask for it, too. */
  readonly usesCache: (model: string) => boolean
  readonly bodies: RequestBodies
  readonly limits: PartLimits
}

/** What a request asks for, as a job, and how its route names the fields of jobs. */
export interface JobRequest {
  /** Null if a thread read the body (`FastifyRequest.largeBody`). */
  readonly value: SingleCreate | null
  /** What the route calls `response_format.schema`. */
  readonly schemaField: string
}

export type Held =
  | { readonly kind: 'settled'; readonly record: JobRecord; readonly cacheHit: boolean }
  /** The answer to the request; the job may continue. */
  | { readonly kind: 'error'; readonly error: V1Error }

interface Created {
  readonly jobId: string
  /** Null if nobody waits, or if the request has an Idempotency-Key. */
  readonly hold: Hold | null
  /** Null if nobody waits, if the server cannot wait, or if the job is an earlier one. */
  readonly pending: PendingResponse | null
  /** The job is that of an earlier request with the same Idempotency-Key. */
  readonly repeated: boolean
}

export class HeldCreates {
  readonly #options: HeldCreatesOptions

  constructor(options: HeldCreatesOptions) {
    this.#options = options
  }

  /** Rejects with the error of a request that creates nothing. */
  async hold(request: FastifyRequest, reply: FastifyReply, wanted: JobRequest): Promise<Held> {
    const { bodies, held } = this.#options
    const waitMs = holdMs(request.headers)
    const equal = equalRequest(request)
    for (;;) {
      const joined = equal && (await held.join(equal))
      const { jobId, hold, pending, repeated } = joined
        ? { jobId: joined.jobId, hold: joined, pending: null, repeated: true }
        : await this.#create(request, wanted, waitMs, equal)
      request.jobIds = [jobId]
      bodies.wait(request)
      const end = repeated
        ? await this.#endOfEarlier(request, reply, jobId, waitMs)
        : pending && (await endOf(pending, reply))
      if (end?.kind !== 'vanished') return this.#heldUntil(end, hold, reply)
      if (hold) held.answered(hold)
      // The job to join was deleted, so the request creates another.
      if (!joined) return { kind: 'error', error: jobVanished() }
    }
  }

  /** Creates a job whose caller does not wait. Rejects with the error of a request that creates nothing. */
  create(request: FastifyRequest, wanted: JobRequest): Promise<Created> {
    return this.#create(request, wanted, null, null)
  }

  async #create(
    request: FastifyRequest,
    { value, schemaField }: JobRequest,
    waitMs: number | null,
    equal: EqualRequest | null,
  ): Promise<Created> {
    const { requests, limits, held, usesCache } = this.#options
    const read = value === null ? request.largeBody?.elements : elementsOfJob(value, limits)
    const [{ model } = NO_JOB] = read ?? []
    const mayCache = usesCache(model) || request.headers[CACHE_HEADER] === 'true'
    const elements = (read ?? []).map((element) => {
      return mayCache ? element : { ...element, cacheTtlS: 0 }
    })
    const admitted = await requests.admit(request, elements, true).catch((error: unknown) => {
      throw renamed(error, model, schemaField)
    })
    const [job] = admitted.jobs
    if (job === undefined) throw new Error('no job was admitted')
    const idempotency = equal ? held.keyOf(equal.hash, job.id) : admitted.idempotency
    const result = await requests.creator.accept({ ...admitted, idempotency }, waitMs)
    if (result.kind === 'conflict') throw keyConflict()
    if (result.kind !== 'accepted') {
      return { jobId: earlierJobIds(result)[0] ?? job.id, hold: null, pending: null, repeated: true }
    }
    const hold = equal && { account: job.account, key: idempotency?.key ?? '', jobId: job.id }
    return { jobId: job.id, hold, pending: result.pending, repeated: false }
  }

  /** A request that is answered without the result of its job leaves it to the next one. */
  async #heldUntil(
    end: Exclude<WaitEnd, { kind: 'vanished' }> | null,
    hold: Hold | null,
    reply: FastifyReply,
  ): Promise<Held> {
    const { held, answers } = this.#options
    const { raw, request } = reply
    if (end?.kind === 'settled') {
      const { contentJson, errorJson } = end.record
      if (
        !request.raw.socket.destroyed &&
        answers.mayHold(request, (contentJson ?? errorJson ?? '').length)
      ) {
        raw.once('close', () => {
          if (hold && raw.writableFinished) held.answered(hold)
          else if (hold) void held.left(hold)
        })
        return end
      }
    }
    if (hold) await held.left(hold)
    if (end?.kind === 'stopping') reply.header('connection', 'close')
    return { kind: 'error', error: end?.kind === 'timeout' ? notFinished() : cannotWait() }
  }

  async #endOfEarlier(
    request: FastifyRequest,
    reply: FastifyReply,
    jobId: string,
    waitMs: number,
  ): Promise<WaitEnd> {
    const { requests, reader } = this.#options
    const read = () => reader.read(request, jobId)
    const wait = await requests.creator.awaitEarlier(jobId, request.caller.account, waitMs, read)
    return 'ended' in wait ? endOf(wait, reply) : wait
  }
}

/** What a request joins by; null for one with a key of its own, which says what it repeats. */
function equalRequest({ headers, caller, route, body, largeBody }: FastifyRequest): EqualRequest | null {
  if (headers['idempotency-key'] !== undefined) return null
  const hash = largeBody?.hash ?? hashOfRequest(route.url ?? '', JSON.stringify(body))
  return { account: caller.account, hash, isRetry: isRetry(headers) }
}

/** The wait ends if the caller hangs up. */
function endOf(pending: PendingResponse, { raw, request }: FastifyReply): Promise<WaitEnd> {
  raw.on('close', pending.leave)
  // The caller may have hung up while the job was being stored.
  if (request.raw.socket.destroyed) pending.leave()
  return pending.ended
}

/** The error with the names that the route has for the fields of jobs. */
function renamed(error: unknown, model: string, schemaField: string): unknown {
  if (!(error instanceof NotAdmitted) || error.reason.kind !== 'invalid') return error
  const { field, rule } = error.reason
  if (field === 'model') return noSuchModel(model)
  return invalidField(field.replace('response_format.schema', schemaField), rule)
}
