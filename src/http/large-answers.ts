/**
 * Sends large responses within the byte budget, because a response stays in memory until its client has read it. An account
 * whose unread responses fill its part of the budget gets 503, or 202 with the job ID if it waits for a new job. Small responses
 * fit into the buffers of the operating system and are always sent.
 */
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { answerBytes, type ByteShare } from '../sharing/byte-budget.ts'
import type { HttpError } from './errors.ts'
import { accountOf, MemoryShare, type OnMemoryRejected } from './load-shedding/memory-share.ts'

/** A response with more characters or bytes is large. */
export const LARGE_ANSWER = 65_536

/** The JSON around a job in a response of Parley's own API fits into this many bytes. */
const ENVELOPE = 512

export interface LargeAnswersOptions {
  readonly share: ByteShare
  readonly clock: Clock
  readonly onRejected: OnMemoryRejected
}

type OnPayload = (error: Error | null, payload?: unknown) => void

export class LargeAnswers {
  readonly #answers: MemoryShare

  constructor(options: LargeAnswersOptions) {
    this.#answers = new MemoryShare({ ...options, name: 'answers' })
  }

  /** Counts a large response before its text is loaded. Throws a 503 if there is no memory for it. */
  async reserve(request: FastifyRequest, textBytes: number): Promise<void> {
    const error = await this.#reserve(request, answerBytes(textBytes))
    if (error) throw error
  }

  /** Returns false if the response is large and must not be sent now. */
  mayHold(request: FastifyRequest, textLength: number): boolean {
    if (textLength + ENVELOPE <= LARGE_ANSWER || request.answerBytes > 0) return true
    const bytes = answerBytes(textLength)
    if (this.#answers.share.tryReserve(accountOf(request), bytes) !== 'granted') return false
    request.answerBytes = bytes
    return true
  }

  /** Runs just before the response is written. Sends a large one in pieces, and counts it unless it is counted already. */
  send(request: FastifyRequest, reply: FastifyReply, payload: unknown, done: OnPayload): void {
    if (payload instanceof Readable && request.answerBytes > 0) {
      const onClose = () => payload.destroy()
      payload.once('close', () => {
        request.raw.socket.off('close', onClose)
        this.#release(request)
      })
      request.raw.socket.once('close', onClose)
      if (request.raw.socket.destroyed) payload.destroy()
      done(null, payload)
      return
    }
    const isLarge = (typeof payload === 'string' || Buffer.isBuffer(payload)) && payload.length > LARGE_ANSWER
    if (!isLarge) {
      if (request.answerBytes > 0) this.#release(request)
      done(null, payload)
      return
    }
    const end = (error: HttpError | null) => {
      if (error) done(error)
      else this.#stream(request, reply, payload, done)
    }
    // If there is memory, `done` must be called before this function returns: Fastify does not wait if the handler has ended.
    const error = request.answerBytes > 0 ? null : this.#reserve(request, answerBytes(payload.length))
    if (error instanceof Promise) void error.then(end)
    else end(error)
  }

  #reserve(request: FastifyRequest, bytes: number): HttpError | null | Promise<HttpError | null> {
    const count = (error: HttpError | null) => {
      if (error === null) request.answerBytes = bytes
      return error
    }
    const error = this.#answers.reserve(accountOf(request), bytes)
    return error instanceof Promise ? error.then(count) : count(error)
  }

  #stream(request: FastifyRequest, reply: FastifyReply, payload: string | Buffer, done: OnPayload): void {
    reply.header('content-length', Buffer.byteLength(payload))
    const { socket } = request.raw
    const pieces = new Pieces(payload, () => {
      socket.off('close', onClose)
      this.#release(request)
    })
    // Node does not end the stream if the connection closes before the first piece was requested. This listener does.
    const onClose = () => pieces.destroy()
    socket.once('close', onClose)
    if (socket.destroyed) pieces.destroy()
    done(null, pieces)
  }

  #release(request: FastifyRequest): void {
    const bytes = request.answerBytes
    request.answerBytes = 0
    this.#answers.share.release(accountOf(request), bytes)
  }
}

/** The unit is UTF-16 units for texts, and bytes for buffers. */
const PIECE = 65_536

/**
 * Streams in small pieces. One large piece would hide the progress in the connection's buffers, and a slow reader would look
 * like a client that does not read.
 */
export class Pieces extends Readable {
  readonly #whole: string | Buffer
  readonly #onClosed: (() => void) | null
  #at = 0

  /** @param onClosed called once, when everything was read or the stream was destroyed */
  constructor(whole: string | Buffer, onClosed: (() => void) | null = null) {
    super({ highWaterMark: PIECE })
    this.#whole = whole
    this.#onClosed = onClosed
  }

  override _read(): void {
    if (this.#at >= this.#whole.length) {
      this.push(null)
      return
    }
    const whole = this.#whole
    let end = Math.min(this.#at + PIECE, whole.length)
    if (typeof whole === 'string') {
      // A surrogate pair must not be split.
      if ((whole.codePointAt(end - 1) ?? 0) > 0xffff) end += 1
      this.push(Buffer.from(whole.slice(this.#at, end)))
    } else {
      this.push(whole.subarray(this.#at, end))
    }
    this.#at = end
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#onClosed?.()
    callback(error)
  }
}
