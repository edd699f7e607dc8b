/**
 * Creates the jobs of requests below `/v1`, and holds requests until their jobs have finished. Equal requests join the same
 * job, because OpenAI's clients repeat requests. If a caller disconnects, its job continues.
 */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { earlierJobIds, endOf } from '../http/create-jobs.ts'
import { NotAdmitted } from '../http/errors.ts'
import type { MessageRoutes } from '../http/messages.ts'
import { IGNORED_HEADER, ignoredHeader } from '../http/parley-headers.ts'
import { type CreateElement, exactFormats } from '../job/create-body.ts'
import { hashOfRequest } from '../job/fingerprint.ts'
import type { Callback } from '../job/job.ts'
import { jobIdMs } from '../job/job-id.ts'
import type { JobRecord } from '../job/job-record.ts'
import { TEXT_JSON } from '../job/response-format.ts'
import type { EqualRequest, HeldRequests, Hold } from '../queue/held-requests.ts'
import type { PendingResponse, WaitEnd } from '../queue/pending-responses.ts'
import {
  cannotWait,
  invalidField,
  jobVanished,
  keyConflict,
  noSuchModel,
  notFinished,
  type V1Error,
} from './errors.ts'
import { elementsOfBody } from './read-body.ts'

/** With the value `true`, the job uses the response cache. */
const CACHE_HEADER = 'x-parley-cache'

export interface HeldCreatesOptions extends Omit<MessageRoutes, 'bodyBytes'> {
  readonly held: HeldRequests
  /** Returns whether jobs with this model use the response cache even without `x-parley-cache`. */
  readonly usesCache: (model: string) => boolean
}

export interface JobRequest {
  readonly element: CreateElement
  /** Maps job fields to their names in the caller's request, for errors. */
  readonly fieldNames: Readonly<Record<string, string>>
  /** Parley sends the callback when the job finishes. The caller of this code must have checked the URL. */
  readonly callback?: Callback
}

export type Held =
  | { readonly kind: 'settled'; readonly record: JobRecord; readonly cacheHit: boolean }
  /** After an error, the job may continue. */
  | { readonly kind: 'error'; readonly error: V1Error }

interface Created {
  readonly jobId: string
  /** `hold` is null if the request has an Idempotency-Key. */
  readonly hold: Hold | null
  /** `pending` is null if the caller does not wait, no slot for waiting is free, or an earlier request created the job. */
  readonly pending: PendingResponse | null
  /** `repeated` is true if an earlier request with the same Idempotency-Key created the job. */
  readonly repeated: boolean
}

export class HeldCreates {
  readonly #options: HeldCreatesOptions

  constructor(options: HeldCreatesOptions) {
    this.#options = options
  }

  /** Returns the job that the body describes. A thread has already translated a large body. */
  elementOf(request: FastifyRequest): CreateElement {
    const { body: value, largeBody, route } = request
    const { translation = '' } = route.config
    const text = request.bodyText ?? ''
    // The text need not stay in memory while the caller waits.
    request.bodyText = null
    const [element] =
      largeBody?.elements ?? elementsOfBody(translation, { text, value }, this.#options.limits)
    if (element === undefined) throw new Error('a body without a job')
    return element
  }

  /** Creates or joins a job and waits for it. Rejects with the error for the caller if no job is created. */
  async hold(request: FastifyRequest, reply: FastifyReply, wanted: JobRequest): Promise<Held> {
    const { bodies, held } = this.#options
    if (wanted.element.ignored) listIgnored(wanted.element, reply)
    const waitMs = holdMs(request.headers)
    const equal = equalRequest(request, wanted.element)
    for (;;) {
      const joined = equal && (await held.join(equal))
      const { jobId, hold, pending, repeated } = joined
        ? { jobId: joined.jobId, hold: joined, pending: null, repeated: true }
        : await this.#create(request, wanted, waitMs, equal)
      request.jobIds = [jobId]
      bodies.wait(request)
      const end = repeated
        ? await unlessFailed(this.#endOfEarlier(request, reply, jobId, waitMs), hold, held)
        : pending && (await endOf(pending, reply))
      if (end?.kind !== 'vanished') return this.#heldUntil(end, hold, reply)
      if (hold) held.answered(hold)
      // If the request joined a job that was then deleted, the next round creates a new job.
      if (!joined) return { kind: 'error', error: jobVanished() }
    }
  }

  /** Creates or joins a job without waiting. Rejects with the error for the caller if no job is created. */
  async create(request: FastifyRequest, reply: FastifyReply, wanted: JobRequest): Promise<JobRecord> {
    const { reader, held } = this.#options
    if (wanted.element.ignored) listIgnored(wanted.element, reply)
    const equal = equalRequest(request, wanted.element)
    for (;;) {
      const joined = equal && (await held.join(equal))
      const { jobId, hold, repeated } = joined
        ? { jobId: joined.jobId, hold: joined, repeated: true }
        : await this.#create(request, wanted, null, equal)
      request.jobIds = [jobId]
      const record = repeated ? await unlessFailed(reader.read(request, jobId), hold, held) : queuedJob(jobId)
      if (record !== null) {
        if (hold && request.raw.socket.destroyed) await held.left(hold)
        else if (hold) whenClosed(reply.raw, hold, held)
        return record
      }
      if (hold) held.answered(hold)
      // If the request joined a job that was then deleted, the next round creates a new job.
      if (!joined) throw jobVanished()
    }
  }

  async #create(
    request: FastifyRequest,
    { element: wanted, fieldNames, callback }: JobRequest,
    waitMs: number | null,
    equal: EqualRequest | null,
  ): Promise<Created> {
    const { requests, held, usesCache } = this.#options
    const mayCache = usesCache(wanted.model) || request.headers[CACHE_HEADER] === 'true'
    const element = { ...wanted, ...(callback && { callback }), ...(!mayCache && { cacheTtlS: 0 }) }
    const admitted = await requests.admit(request, [element], true).catch((error: unknown) => {
      throw renamed(error, wanted.model, fieldNames)
    })
    const [job] = admitted.jobs
    if (job === undefined) throw new Error('no job was admitted')
    const idempotency = equal ? held.keyOf(equal.hash, job.id) : admitted.idempotency
    const leftMs = waitMs === null ? null : Math.max(0, waitMs - admitted.countedMs)
    const result = await requests.creator.accept({ ...admitted, idempotency }, leftMs)
    if (result.kind === 'conflict') throw keyConflict()
    if (result.kind !== 'accepted') {
      return { jobId: earlierJobIds(result)[0] ?? job.id, hold: null, pending: null, repeated: true }
    }
    const hold = equal && { account: job.account, key: idempotency?.key ?? '', jobId: job.id }
    return { jobId: job.id, hold, pending: result.pending, repeated: false }
  }

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
        if (hold) whenClosed(raw, hold, held)
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

function listIgnored(element: CreateElement, reply: FastifyReply): void {
  const ignored = ignoredHeader([element])
  if (ignored !== null) reply.header(IGNORED_HEADER, ignored)
}

/** Returns what equal requests have in common, or null if the request has an Idempotency-Key. */
function equalRequest(
  { headers, caller, route, body, largeBody }: FastifyRequest,
  element: CreateElement,
): EqualRequest | null {
  if (headers['idempotency-key'] !== undefined) return null
  const exact = element.responseFormatJson === TEXT_JSON ? '' : exactFormats([element])
  const hash = largeBody?.hash ?? hashOfRequest(route.url ?? '', JSON.stringify(body) + exact)
  return { account: caller.account, hash, isRetry: isRetry(headers) }
}

/** If the result rejects, the caller gets no answer, so a repeated request may join the job. */
async function unlessFailed<Result>(
  result: Promise<Result>,
  hold: Hold | null,
  held: HeldRequests,
): Promise<Result> {
  try {
    return await result
  } catch (error) {
    if (hold) await held.left(hold)
    throw error
  }
}

/** Ends the hold when the caller has the answer. Otherwise, a repeated request may join the job. */
function whenClosed(raw: ServerResponse, hold: Hold, held: HeldRequests): void {
  raw.once('close', () => {
    // A 503 contains no answer: there was no memory for it.
    if (raw.writableFinished && raw.statusCode !== 503) held.answered(hold)
    else void held.left(hold)
  })
}

function queuedJob(id: string): JobRecord {
  const createdAtMs = jobIdMs(id)
  return { id, status: 'pending', createdAtMs, contentJson: null, errorJson: null, usageJson: null }
}

function renamed(error: unknown, model: string, names: JobRequest['fieldNames']): unknown {
  if (!(error instanceof NotAdmitted) || error.reason.kind !== 'invalid') return error
  const { field, rule } = error.reason
  if (field === 'model') return noSuchModel(model)
  return invalidField(renamedField(field, names), rule)
}

export const CHAT_FIELD_NAMES = { 'response_format.schema': 'response_format.json_schema.schema' } as const
export const RESPONSE_FIELD_NAMES = {
  messages: 'input',
  'response_format.schema': 'text.format.schema',
} as const

export function renamedField(field: string, names: JobRequest['fieldNames']): string {
  const [name = field, named = name] = Object.entries(names).find(([one]) => field.startsWith(one)) ?? []
  return field.replace(name, named)
}

/** A request is held at most this long, because Node's `fetch` fails if the response takes longer than 300 s. */
const LONGEST_S = 280
/** The server responds this many seconds before the client's timeout, or after half of a timeout of less than ten seconds. */
const EARLIER_S = 5

/** OpenAI's clients send their timeout in seconds. The Python client uses a different header than the others. */
function holdMs(headers: IncomingHttpHeaders): number {
  const timeoutS = Number(headers['x-stainless-timeout'] ?? headers['x-stainless-read-timeout'])
  if (!(timeoutS > 0)) return LONGEST_S * 1000
  return Math.min(LONGEST_S, Math.max(timeoutS - EARLIER_S, timeoutS / 2)) * 1000
}

export function isRetry(headers: IncomingHttpHeaders): boolean {
  return Number(headers['x-stainless-retry-count']) >= 1
}
