/**
 * Receives the bodies of requests within the byte budget. The hooks of the server call, in this order:
 *
 * 1. `admit`, once the key is known and before anything of the body is read. A large body of an account that is over its
 *    part gets 503 here; its bytes are never in memory.
 * 2. `read` reads the body into one buffer. While it arrives, at the client's pace, it takes one time its length; from then
 *    on what its text and the values in it take.
 * 3. `release`, when the response is sent.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { type ByteBudget, SMALL_BYTES } from '../sharing/byte-budget.ts'
import { requestBytes, uploadBytes, waitingRequestBytes } from '../sharing/job-bytes.ts'
import type { HttpError } from './errors.ts'
import { accountOf, MemoryShare, type OnMemoryRejected } from './load-shedding/memory-share.ts'
import { FIRST_BYTES, type OnBody, readBody } from './read-body.ts'
import type { BodyMemory } from './request-context.ts'

export interface RequestBodiesOptions {
  readonly budget: Pick<ByteBudget, 'uploads' | 'requests'>
  readonly clock: Clock
  readonly onRejected: OnMemoryRejected
}

export class RequestBodies {
  readonly #uploads: MemoryShare
  readonly #requests: MemoryShare
  /** Of requests whose clients wait for 100 Continue before they send the body. */
  readonly #awaited = new WeakMap<IncomingMessage, ServerResponse>()

  constructor({ budget, ...options }: RequestBodiesOptions) {
    this.#uploads = new MemoryShare({ ...options, name: 'uploads', share: budget.uploads })
    this.#requests = new MemoryShare({ ...options, name: 'requests', share: budget.requests })
  }

  /** The client sends the body only once it is asked to: `read` asks. */
  expectContinue(request: IncomingMessage, response: ServerResponse): void {
    this.#awaited.set(request, response)
  }

  /** Null if the body may be read, else the error. */
  admit(request: FastifyRequest): HttpError | null | Promise<HttpError | null> {
    const { headers, method, routeOptions } = request
    const length = lengthOf(request)
    const hasBody = length !== null || headers['transfer-encoding'] !== undefined
    if (!hasBody || method === 'GET' || method === 'HEAD') return null
    // `read` rejects it.
    if (length !== null && length > routeOptions.bodyLimit) return null
    const account = accountOf(request)
    const memory: BodyMemory = { uploadBytes: 0, requestBytes: 0, bodyLength: length ?? 0 }
    request.bodyMemory = memory
    const whole = requestBytes(length ?? FIRST_BYTES)
    if (whole <= SMALL_BYTES) return reserve(this.#requests, account, whole, memory, 'requestBytes')
    return reserve(this.#uploads, account, uploadBytes(memory.bodyLength), memory, 'uploadBytes')
  }

  /** Calls `done` with the whole body, or with the error. */
  read(request: FastifyRequest, done: OnBody): void {
    const { raw, routeOptions } = request
    const length = lengthOf(request)
    const limit = routeOptions.bodyLimit
    const rules = { length, limit, grow: () => this.#grow(request) }
    if (raw.headers.expect !== undefined && (length ?? 0) <= limit) this.#awaited.get(raw)?.writeContinue()
    readBody(raw, rules, (error, body) => {
      if (error || !body) done(error)
      else this.#received(request, body, done)
    })
  }

  /** The request waits for its job, and needs no more than the values of its body. */
  wait(request: FastifyRequest): void {
    const memory = request.bodyMemory
    if (memory === null || memory.requestBytes <= SMALL_BYTES) return
    const bytes = waitingRequestBytes(memory.bodyLength)
    this.#requests.share.resize(accountOf(request), memory.requestBytes, bytes)
    memory.requestBytes = bytes
  }

  /** A second call does nothing. */
  release(request: FastifyRequest): void {
    const memory = request.bodyMemory
    if (memory === null) return
    const account = accountOf(request)
    request.bodyMemory = null
    if (memory.uploadBytes > 0) this.#uploads.share.release(account, memory.uploadBytes)
    if (memory.requestBytes > 0) this.#requests.share.release(account, memory.requestBytes)
  }

  /** A body of unknown length that is not small counts as the largest that its route accepts. */
  async #grow(request: FastifyRequest): Promise<HttpError | null> {
    const { bodyMemory: memory, routeOptions } = request
    if (memory === null) return null
    const account = accountOf(request)
    const error = await reserve(
      this.#uploads,
      account,
      uploadBytes(routeOptions.bodyLimit),
      memory,
      'uploadBytes',
    )
    // The client hung up meanwhile, and the request has had its response.
    if (error === null && request.bodyMemory === null)
      this.#uploads.share.release(account, memory.uploadBytes)
    return error
  }

  /** From now on the body takes what its request takes. */
  #received(request: FastifyRequest, body: Buffer, done: OnBody): void {
    const memory = request.bodyMemory
    if (memory === null || memory.uploadBytes === 0) {
      done(null, body)
      return
    }
    const account = accountOf(request)
    memory.bodyLength = body.length
    // What a body of unknown length counted before it was large.
    if (memory.requestBytes > 0) this.#requests.share.release(account, memory.requestBytes)
    memory.requestBytes = 0
    const bytes = requestBytes(body.length)
    const end = (error: HttpError | null) => {
      if (error === null) memory.requestBytes = bytes
      this.#uploads.share.release(account, memory.uploadBytes)
      memory.uploadBytes = 0
      done(error, body)
    }
    const error = this.#requests.reserveOrWait(account, bytes)
    if (error instanceof Promise) void error.then(end)
    else end(error)
  }
}

function reserve(
  share: MemoryShare,
  account: string,
  bytes: number,
  memory: BodyMemory,
  as: 'uploadBytes' | 'requestBytes',
): HttpError | null | Promise<HttpError | null> {
  const error = share.reserve(account, bytes)
  if (error instanceof Promise) {
    return error.then((late) => {
      if (late === null) memory[as] = bytes
      return late
    })
  }
  if (error === null) memory[as] = bytes
  return error
}

/** Null where the header is absent; such a body has the length that it turns out to have. */
function lengthOf({ headers }: FastifyRequest): number | null {
  const given = headers['content-length']
  return given === undefined ? null : Number(given)
}
