/**
 * Sends large responses within the byte budget: a response is in memory until its client has read it, at the client's pace. An
 * account whose clients read slowly gets 503 for further large responses; small ones fit into the buffers of the operating
 * system, and are always sent.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import type { ByteShare } from '../sharing/byte-budget.ts'
import { answerBytes } from '../sharing/job-bytes.ts'
import type { HttpError } from './errors.ts'
import { accountOf, MemoryShare, type OnMemoryRejected } from './memory-share.ts'
import { Pieces } from './pieces.ts'

/** A response of more characters or bytes than this is large. */
export const LARGE_ANSWER = 65_536

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

  /** To be awaited before a text of this size is loaded for the response; throws the error for the caller. */
  async reserve(request: FastifyRequest, textBytes: number): Promise<void> {
    const bytes = answerBytes(textBytes)
    const error = await this.#answers.reserve(accountOf(request), bytes)
    if (error) throw error
    request.answerBytes = bytes
  }

  /** Whether a response with a text of this length may be sent now. True for small ones. */
  mayHold(request: FastifyRequest, textLength: number): boolean {
    if (textLength <= LARGE_ANSWER || request.answerBytes > 0) return true
    const bytes = answerBytes(textLength)
    if (this.#answers.share.tryReserve(accountOf(request), bytes) !== 'granted') return false
    request.answerBytes = bytes
    return true
  }

  /** The server's last step before a response is written. */
  send(request: FastifyRequest, reply: FastifyReply, payload: unknown, done: OnPayload): void {
    const isLarge = (typeof payload === 'string' || Buffer.isBuffer(payload)) && payload.length > LARGE_ANSWER
    if (isLarge) {
      void this.#sendLarge(request, reply, payload, done)
      return
    }
    if (request.answerBytes > 0) this.#release(request)
    done(null, payload)
  }

  async #sendLarge(request: FastifyRequest, reply: FastifyReply, payload: string | Buffer, done: OnPayload) {
    try {
      if (request.answerBytes === 0) await this.reserve(request, payload.length)
    } catch (error) {
      done(error as HttpError)
      return
    }
    reply.header('content-length', Buffer.byteLength(payload))
    done(null, new Pieces(payload, () => this.#release(request)))
  }

  #release(request: FastifyRequest): void {
    const bytes = request.answerBytes
    request.answerBytes = 0
    this.#answers.share.release(accountOf(request), bytes)
  }
}
