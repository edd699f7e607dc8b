/**
 * Receives the bodies of requests within the byte budget, each into one buffer. Large bodies of an account that has used up its
 * part get 503 before they are read.
 *
 * The server calls, in this order:
 *
 * 1. `admit`, before any of the body is read. If the body is large and its account has used up its part of the budget, the
 * caller gets 503, and the body is never in memory.
 * 2. `read`. While the body arrives at the client's pace, its length is counted; afterwards, the estimated memory of its text
 * and values.
 * 3. `release`, when the request is rejected or its response is sent.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import {
  type ByteBudget,
  requestBytes,
  SMALL_BYTES,
  uploadBytes,
  waitingRequestBytes,
} from '../sharing/byte-budget.ts'
import { type HttpError, invalid, notJson, tooLarge } from './errors.ts'
import { accountOf, MemoryShare, type OnMemoryRejected } from './load-shedding/memory-share.ts'
import type { BodyMemory } from './request-context.ts'

/** A body of unknown length counts this many bytes. If it is longer, it counts as the largest body that its route accepts. */
const FIRST_BYTES = 8192

export interface RequestBodiesOptions {
  readonly budget: Pick<ByteBudget, 'uploads' | 'requests'>
  readonly clock: Clock
  readonly onRejected: OnMemoryRejected
}

const EMPTY = Buffer.alloc(0)

type OnBody = (error: Error | null, body?: Buffer) => void

export class RequestBodies {
  readonly #uploads: MemoryShare
  readonly #requests: MemoryShare
  /** The clients of these requests wait for `100 Continue` before they send the body. */
  readonly #awaited = new WeakMap<IncomingMessage, ServerResponse>()

  constructor({ budget, ...options }: RequestBodiesOptions) {
    this.#uploads = new MemoryShare({ ...options, name: 'uploads', share: budget.uploads })
    this.#requests = new MemoryShare({ ...options, name: 'requests', share: budget.requests })
  }

  /** `read` sends `100 Continue` to this client. */
  expectContinue(request: IncomingMessage, response: ServerResponse): void {
    this.#awaited.set(request, response)
  }

  /** Sends `100 Continue` if the client waits for it. */
  readOn({ raw }: FastifyRequest): void {
    this.#awaited.get(raw)?.writeContinue()
  }

  /** Returns null if the body may be read, otherwise the error for the caller. */
  admit(request: FastifyRequest): HttpError | null | Promise<HttpError | null> {
    const { headers, method, route } = request
    const given = headers['content-length']
    // An uploaded file is stored while it arrives, and has its own limits.
    if (route.config.upload) return null
    const hasBody = given !== undefined || headers['transfer-encoding'] !== undefined
    if (!hasBody || method === 'GET' || method === 'HEAD') return null
    const length = given === undefined ? null : Number(given)
    // `read` rejects a body that is too long.
    if (length !== null && length > route.bodyLimit) return null
    const account = accountOf(request)
    const memory: BodyMemory = { account, bodyLength: length ?? 0, uploadBytes: 0, requestBytes: 0 }
    request.bodyMemory = memory
    const whole = requestBytes(length ?? FIRST_BYTES)
    if (whole > SMALL_BYTES)
      return reserve(this.#uploads, uploadBytes(memory.bodyLength), memory, 'uploadBytes')
    if (this.#requests.share.tryReserve(account, whole) !== 'granted') {
      return reserve(this.#requests, whole, memory, 'requestBytes')
    }
    memory.requestBytes = whole
    return null
  }

  /** Calls `done` once. */
  read(request: FastifyRequest, done: OnBody): void {
    const { raw, headers, route } = request
    const limit = route.bodyLimit
    const given = headers['content-length']
    const length = given === undefined ? null : Number(given)
    if (length !== null && length > limit) {
      done(tooLarge(limit))
      return
    }
    if (headers.expect !== undefined) this.readOn(request)
    // If the client disconnected while the request waited for memory, the stream emits no more events.
    if (raw.destroyed) {
      done(notJson('The connection closed before the whole body arrived.'))
      return
    }
    let buffer: Buffer | null = null
    let received = 0
    let hasEnded = false

    const onData = (piece: Buffer): void => {
      const total = received + piece.length
      if (total > (length ?? limit)) onEnd(tooLarge(limit))
      // A body that arrives in one piece needs no copy.
      else if (piece.length === length) buffer = piece
      else {
        buffer ??= Buffer.allocUnsafe(length ?? Math.min(FIRST_BYTES, limit))
        if (total > buffer.length) {
          void enlarge(piece, buffer)
          return
        }
        // Many small pieces would take more memory than their bytes, so each is copied into one buffer.
        piece.copy(buffer, received)
      }
      received = total
    }
    const enlarge = async (piece: Buffer, first: Buffer): Promise<void> => {
      raw.pause()
      const error = await this.#grow(request, limit)
      if (error) onEnd(error)
      if (hasEnded) return
      // Pages of the buffer that the body does not reach take no memory.
      const larger = Buffer.allocUnsafe(limit)
      first.copy(larger, 0, 0, received)
      buffer = larger
      onData(piece)
      raw.resume()
    }
    const onEnd = (error?: Error): void => {
      if (hasEnded) return
      hasEnded = true
      raw.off('data', onData).off('end', onEnd).off('error', onEnd)
      if (error) done(error)
      else if (length !== null && received < length)
        done(invalid('Content-Length: does not match the length of the body'))
      else {
        const body = buffer?.subarray(0, received) ?? EMPTY
        const memory = request.bodyMemory
        if (memory === null || memory.uploadBytes === 0) done(null, body)
        else this.#received(memory, body, done)
      }
    }
    raw.on('data', onData).on('end', onEnd).on('error', onEnd)
  }

  /** While the request waits for its job, only the values of its body are in memory, so fewer bytes are counted. */
  wait(request: FastifyRequest): void {
    const memory = request.bodyMemory
    if (memory === null || memory.requestBytes <= SMALL_BYTES) return
    const bytes = waitingRequestBytes(memory.bodyLength)
    this.#requests.share.resize(memory.account, memory.requestBytes, bytes)
    memory.requestBytes = bytes
  }

  /** Also drops the body, because the request stays in memory until the response is written. A second call does nothing. */
  release(request: FastifyRequest): void {
    const memory = request.bodyMemory
    // If the URL cannot be decoded, Fastify does not add its decorations to the request, so `memory` is undefined.
    if (!memory) return
    request.bodyMemory = null
    request.body = undefined
    request.bodyText = null
    request.largeBody = null
    const { account, uploadBytes, requestBytes } = memory
    if (uploadBytes > 0) this.#uploads.share.release(account, uploadBytes)
    if (requestBytes > 0) this.#requests.share.release(account, requestBytes)
  }

  /** Counts a long body of unknown length as the largest body that its route accepts. */
  async #grow(request: FastifyRequest, limit: number): Promise<HttpError | null> {
    const memory = request.bodyMemory
    if (memory === null) return null
    const bytes = uploadBytes(limit)
    const error = await reserve(this.#uploads, bytes, memory, 'uploadBytes')
    // If the client disconnected during the wait, `release` has already run.
    if (error === null && request.bodyMemory === null) this.#uploads.share.release(memory.account, bytes)
    return error
  }

  /** Counts the body against the share `requests` instead of `uploads`. */
  #received(memory: BodyMemory, body: Buffer, done: OnBody): void {
    const { account } = memory
    memory.bodyLength = body.length
    // A body of unknown length counted against `requests` until it was large.
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
  bytes: number,
  memory: BodyMemory,
  as: 'uploadBytes' | 'requestBytes',
): HttpError | null | Promise<HttpError | null> {
  const error = share.reserve(memory.account, bytes)
  if (error instanceof Promise) {
    return error.then((late) => {
      if (late === null) memory[as] = bytes
      return late
    })
  }
  if (error === null) memory[as] = bytes
  return error
}
