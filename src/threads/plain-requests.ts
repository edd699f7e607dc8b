/**
 * Answers plain requests on a request thread: reads and checks them here, has the main thread decide and store, and writes the response.
 * Whatever turns out to be more than plain, an error first of all, is forwarded: so no rule and no error is written twice.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '../clock.ts'
import { wholeMs } from '../clock.ts'
import { dataText, READ_AFTER_S } from '../http/envelope.ts'
import { IGNORED_HEADER, ignoredHeader } from '../http/ignored-header.ts'
import { unavailable } from '../http/load-shedding/unavailable.ts'
import { requestId } from '../http/received-requests.ts'
import {
  enqueuedMessage,
  NOT_SENT_NOW,
  STATUS_MESSAGES,
  STILL_PROCESSED,
  timedOutJson,
} from '../http/response-texts.ts'
import type { PartLimits } from '../job/create-element.ts'
import { TIMEOUT_S } from '../job/field-bounds.ts'
import type { Job } from '../job/job.ts'
import { jobRecordJson } from '../job/job-record.ts'
import { readCreateBody } from '../job/read-create-body.ts'
import { type AdmissionRules, admit } from '../queue/admission.ts'
import type { BodyReader } from './body-reader.ts'
import type { Exchange } from './exchange.ts'
import type { KnownCaller, KnownCallers } from './known-callers.ts'
import type { Answer, MainCalls } from './main-calls.ts'
import type { JobCells } from './messages.ts'
import {
  BATCH_ROUTE,
  type PlainKind,
  type PlainLimits,
  plainKind,
  READ_ROUTE,
  SINGLE_ROUTE,
} from './plain-request.ts'
import type { Responder } from './responder.ts'

export interface PlainRequestsOptions {
  readonly calls: MainCalls
  readonly callers: KnownCallers
  readonly bodies: BodyReader
  readonly responder: Responder
  readonly rules: AdmissionRules
  readonly clock: Clock
  readonly limits: PlainLimits
  readonly partLimits: PartLimits
  readonly maxDepth: number
  /** Where the client is, behind the proxies that are trusted; null on a Unix socket. */
  readonly addressOf: (request: IncomingMessage) => string | null
  readonly forward: (request: IncomingMessage, response: ServerResponse, body: Buffer | null) => void
}

/** What the response to a create needs: not the texts of the jobs, which would be kept for as long as the caller waits. */
interface Created {
  readonly ids: readonly string[]
  readonly createdAtMs: number
  readonly ignored: string | null
}

interface Admitted extends Created {
  readonly cells: readonly JobCells[]
  readonly waitMs: number | null
}

export class PlainRequests {
  readonly #options: PlainRequestsOptions

  constructor(options: PlainRequestsOptions) {
    this.#options = options
  }

  /** Answers the request or forwards it. */
  handle(request: IncomingMessage, response: ServerResponse): void {
    const { limits, callers, forward, addressOf, clock } = this.#options
    const kind = plainKind(request, limits)
    const key = request.headers['x-api-key']
    if (kind === null || typeof key !== 'string') {
      forward(request, response, null)
      return
    }
    const from = addressOf(request)
    const exchange = {
      request,
      response,
      id: requestId(request),
      startedMs: clock.steadyMs(),
      from,
      route: routeOf(kind),
      account: null,
      jobIds: null,
    }
    const caller = callers.get(key)
    if (caller instanceof Promise) void caller.then((found) => this.#answer(exchange, kind, found))
    else this.#answer(exchange, kind, caller)
  }

  #answer(exchange: Exchange, kind: PlainKind, caller: KnownCaller | null): void {
    exchange.account = caller?.account ?? null
    if (caller === null) this.#forward(exchange, null)
    else if (typeof kind === 'object') void this.#read(exchange, caller, kind.jobId)
    else if (caller.suspended) this.#forward(exchange, null)
    else {
      const isReading = this.#options.bodies.read(exchange.request, (body) => {
        if (body !== null) void this.#create(exchange, kind, caller, body)
      })
      if (!isReading) this.#forward(exchange, null)
    }
  }

  async #create(
    exchange: Exchange,
    kind: 'single' | 'batch',
    caller: KnownCaller,
    body: Buffer,
  ): Promise<void> {
    const admitted = this.#admit(kind, caller, body)
    if (admitted === null) return this.#forward(exchange, body)
    const { cells, waitMs, ...created } = admitted
    const { call, answer } = this.#options.calls.create(caller.keyId, body.length, waitMs, cells)
    if (waitMs !== null) this.#watchClient(exchange, call)
    await this.#finish(exchange, created, caller, body, answer)
  }

  /** A function of its own, so that the texts of the jobs are not kept while it waits. */
  async #finish(
    exchange: Exchange,
    created: Created,
    caller: KnownCaller,
    body: Buffer,
    answer: Promise<Answer>,
  ): Promise<void> {
    const answered = await answer
    if (answered[0] === 'forward') return this.#forward(exchange, body)
    if (answered[0] === 'not ended' && answered[2] === 'vanished') {
      return this.#createAgain(exchange, caller, body)
    }
    if (answered[0] !== 'unavailable') exchange.jobIds = created.ids
    this.#sendCreated(exchange, created, answered)
  }

  /**
   * Converts a body to jobs; null if the body is not plain: it is invalid, or has so much text that its tokens must be
   * counted.
   */
  #admit(kind: 'single' | 'batch', caller: KnownCaller, body: Buffer): Admitted | null {
    try {
      return this.#jobsOf(kind, caller, body)
    } catch {
      // A defect must not end the process. The HTTP server meets it, too, and reports it.
      return null
    }
  }

  #jobsOf(kind: 'single' | 'batch', caller: KnownCaller, body: Buffer): Admitted | null {
    const { rules, partLimits: limits, maxDepth } = this.#options
    const { maxBatchJobs: maxJobs } = caller.tier
    const read = readCreateBody({ bytes: body, kind, maxDepth, maxJobs, limits, fingerprintRoute: null })
    if (read.kind !== 'read') return null
    const { elements } = read
    const admission = admit(elements, caller, rules, null, kind === 'single')
    if (admission === null || !admission.ok) return null
    const { jobs } = admission
    const isAnyIgnored = elements.some((element) => element.ignored !== null)
    return {
      ids: jobs.map(({ id }) => id),
      createdAtMs: jobs[0]?.createdAtMs ?? 0,
      ignored: isAnyIgnored ? ignoredHeader(elements) : null,
      cells: jobs.map(cellsOf),
      waitMs: kind === 'single' ? wholeMs(elements[0]?.timeoutS ?? TIMEOUT_S.default) : null,
    }
  }

  /** A caller who hangs up is not waited for. */
  #watchClient({ request, response }: Exchange, call: number): void {
    const { calls } = this.#options
    const leave = () => {
      if (!response.writableEnded) calls.leave(call)
    }
    response.once('close', leave)
    if (request.socket.destroyed) leave()
  }

  /** SPEC §4.3: a job that vanished during the wait is created again, and the caller gets the new id for polling. */
  async #createAgain(exchange: Exchange, caller: KnownCaller, body: Buffer): Promise<void> {
    const created = this.#admit('single', caller, body)
    if (created === null) return this.#forward(exchange, body)
    const { call, answer } = this.#options.calls.create(caller.keyId, body.length, null, created.cells)
    if ((await answer)[0] !== 'accepted') return this.#forward(exchange, body)
    exchange.jobIds = created.ids
    this.#sendCreated(exchange, created, ['not ended', call, 'timeout'])
  }

  #sendCreated(exchange: Exchange, { ids, createdAtMs, ignored }: Created, answer: Answer): void {
    const { responder, calls } = this.#options
    const headers = ignored === null || answer[0] === 'unavailable' ? [] : [IGNORED_HEADER, ignored]
    const [id = ''] = ids
    switch (answer[0]) {
      case 'accepted': {
        headers.push('retry-after', READ_AFTER_S)
        const text = dataText(enqueuedMessage(ids.length), JSON.stringify({ job_ids: ids }))
        responder.send(exchange, 202, headers, text)
        break
      }
      case 'unavailable': {
        const { status, message, details, retryAfterS } = unavailable()
        headers.push('retry-after', String(retryAfterS))
        responder.send(exchange, status, headers, JSON.stringify({ success: false, message, details }))
        break
      }
      case 'ended': {
        const [, call, status, contentJson, errorJson, cacheHit, isCounted] = answer
        if (cacheHit) headers.push('x-cache', 'hit')
        const json = jobRecordJson({ id, status, createdAtMs, contentJson, errorJson })
        const onSent = isCounted ? () => calls.sent(call) : null
        responder.send(exchange, 200, headers, dataText(STATUS_MESSAGES[status], json), onSent)
        break
      }
      case 'not ended': {
        headers.push('location', `${SINGLE_ROUTE}/${id}`, 'retry-after', READ_AFTER_S)
        if (answer[2] === 'stopping') headers.push('connection', 'close')
        const message = answer[2] === 'too large' ? NOT_SENT_NOW : STILL_PROCESSED
        responder.send(exchange, 202, headers, dataText(message, timedOutJson(id)))
        break
      }
      default:
        throw new Error(`a create was answered with '${answer[0]}'`)
    }
  }

  async #read(exchange: Exchange, { keyId, tier }: KnownCaller, jobId: string): Promise<void> {
    const answer = await this.#options.calls.read(keyId, jobId)
    if (answer[0] !== 'record') return this.#forward(exchange, null)
    const [, , status, createdAtMs, contentJson, errorJson, reads, leftMs] = answer
    exchange.jobIds = [jobId]
    const limit = tier.readsPerMinute
    const headers = [
      'cache-control',
      'no-store',
      'ratelimit-limit',
      String(limit),
      'ratelimit-remaining',
      String(Math.max(0, limit - reads)),
      'ratelimit-reset',
      String(Math.ceil(leftMs / 1000)),
    ]
    const json = jobRecordJson({ id: jobId, status, createdAtMs, contentJson, errorJson })
    this.#options.responder.send(exchange, 200, headers, dataText(STATUS_MESSAGES[status], json))
  }

  #forward({ request, response }: Exchange, body: Buffer | null): void {
    this.#options.forward(request, response, body)
  }
}

function routeOf(kind: PlainKind): string {
  if (kind === 'single') return SINGLE_ROUTE
  return kind === 'batch' ? BATCH_ROUTE : READ_ROUTE
}

function cellsOf(job: Job): JobCells {
  return [
    job.id,
    job.model,
    job.messagesJson,
    job.responseFormatJson,
    job.cacheTtlMs,
    job.callbackJson,
    job.createdAtMs,
    job.inputTokens,
  ]
}
