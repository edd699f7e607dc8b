/**
 * Creates the job of a request below `/v1`, and holds the request until the job has ended or the server must answer. A job whose
 * caller left continues.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type CreateRequests, earlierJobIds } from '../http/create-jobs.ts'
import { NotAdmitted } from '../http/errors.ts'
import type { JobReader } from '../http/read-jobs.ts'
import type { RequestBodies } from '../http/request-bodies.ts'
import { createElements, type PartLimits } from '../job/create-body.ts'
import type { JobRecord } from '../job/job-record.ts'
import type { SingleCreate } from '../job/request.ts'
import type { PendingResponse, WaitEnd } from '../queue/pending-responses.ts'
import { holdMs } from './deadline.ts'
import {
  cannotWait,
  invalidField,
  jobVanished,
  keyConflict,
  noSuchModel,
  notFinished,
  type V1Error,
} from './errors.ts'

export interface HeldCreatesOptions {
  readonly requests: CreateRequests
  readonly reader: JobReader
  readonly bodies: RequestBodies
  readonly limits: PartLimits
}

/** What a request asks for, as a job, and how its route names the fields of jobs. */
export interface JobRequest {
  readonly value: SingleCreate
  /** What the route calls `response_format.schema`. */
  readonly schemaField: string
}

export type Held =
  | { readonly kind: 'settled'; readonly record: JobRecord; readonly cacheHit: boolean }
  /** The answer to the request; the job may continue. */
  | { readonly kind: 'error'; readonly error: V1Error }

interface Created {
  readonly jobId: string
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
    const waitMs = holdMs(request.headers)
    const { jobId, pending, repeated } = await this.create(request, wanted, waitMs)
    this.#options.bodies.wait(request)
    const end = repeated
      ? await this.#endOfEarlier(request, reply, jobId, waitMs)
      : pending && (await endOf(pending, reply))
    switch (end?.kind) {
      case 'settled':
        return end
      case 'timeout':
        return { kind: 'error', error: notFinished() }
      case 'vanished':
        return { kind: 'error', error: jobVanished() }
      case 'stopping':
        reply.header('connection', 'close')
    }
    return { kind: 'error', error: cannotWait() }
  }

  /**
   * Resolves when the job is durable. Rejects with the error of a request that creates nothing.
   * @param waitMs how long the caller waits for the job; null if it does not
   */
  async create(request: FastifyRequest, wanted: JobRequest, waitMs: number | null): Promise<Created> {
    const { requests, limits } = this.#options
    const { value, schemaField } = wanted
    // Only the text of the format matters, because nothing else has a limit of its own.
    const text = JSON.stringify({ response_format: value.response_format })
    const elements = createElements({ kind: 'single', text, value }, limits)
    const admitted = await requests.admit(request, elements, true).catch((error: unknown) => {
      throw renamed(error, value, schemaField)
    })
    const result = await requests.creator.accept(admitted, waitMs)
    if (result.kind === 'conflict') throw keyConflict()
    const [jobId] = result.kind === 'accepted' ? admitted.jobs.map(({ id }) => id) : earlierJobIds(result)
    if (jobId === undefined) throw new Error('no job was admitted')
    request.jobIds = [jobId]
    return result.kind === 'accepted'
      ? { jobId, pending: result.pending, repeated: false }
      : { jobId, pending: null, repeated: true }
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

/** The wait ends if the caller hangs up. */
function endOf(pending: PendingResponse, { raw, request }: FastifyReply): Promise<WaitEnd> {
  raw.on('close', pending.leave)
  // The caller may have hung up while the job was being stored.
  if (request.raw.socket.destroyed) pending.leave()
  return pending.ended
}

/** The error with the names that the route has for the fields of jobs. */
function renamed(error: unknown, { model }: SingleCreate, schemaField: string): unknown {
  if (!(error instanceof NotAdmitted) || error.reason.kind !== 'invalid') return error
  const { field, rule } = error.reason
  if (field === 'model') return noSuchModel(model)
  return invalidField(field.replace('response_format.schema', schemaField), rule)
}
