/**
 * Responds to rejected requests at a limited pace. Slots, quotas and caps do not limit rejected requests, and each costs the
 * event loop nearly as much as a job, so an account or an address that sends many of them would starve the others. Responses
 * beyond the pace are delayed: a client that waits for its response cannot exceed the pace.
 *
 * - Every account has its own pace, and so has every address for requests without a valid key.
 * - A rejected request counts once, and once more for each 2 KiB of its body, because the body was received and perhaps parsed.
 * - Files that need no key, such as those of /docs, count by address, once for each 16 KiB: sixteen connections that repeatedly
 *   read one of 3 MB used up the whole event loop.
 * - A burst of one second's worth is not delayed. Beyond that, each response is delayed until its turn, but at most ten seconds.
 */
import type { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { senderOf } from './network-of.ts'
import './request-context.ts'

/** A burst of this much time at the pace is not delayed. */
const BURST_MS = 1000
/**
 * This many bytes of a body count like a request: 10 MB keep the CPU pool busy as long as 5,000 unknown keys keep the event loop
 * busy.
 */
const COUNTED_BYTES = 2 * 1024
/** Bytes of a file that count like a request. */
const COUNTED_SENT_BYTES = 16 * 1024
const LONGEST_DELAY_MS = 10_000
/** At most this many accounts and addresses are counted; beyond it, the oldest is dropped. */
const MAX_SENDERS = 10_000

export interface RejectionPacingOptions {
  readonly perSecond: number
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  /** Aborted when the server stops: all responses are then sent at once. */
  readonly stopping: AbortSignal
  readonly onDelayed: () => void
}

export class RejectionPacing {
  readonly #options: RejectionPacingOptions
  /** The time of the next turn of each sender. */
  readonly #turnsMs = new Map<string, number>()
  readonly #delayed = new Set<() => void>()

  constructor(options: RejectionPacingOptions) {
    this.#options = options
    options.stopping.addEventListener('abort', () => {
      for (const send of this.#delayed) send()
    })
  }

  /** Calls `send` now or after a delay, once; never if the client hangs up first. */
  pace(request: FastifyRequest, send: () => void): void {
    this.#pace(request, weightOf(request), send)
  }

  /** Like `pace`, for a response of this many bytes to a request that needs no key. */
  paceDownload(request: FastifyRequest, bytes: number, send: () => void): void {
    const weight = Math.floor(bytes / COUNTED_SENT_BYTES)
    if (weight === 0) send()
    else this.#pace(request, weight, send)
  }

  #pace(request: FastifyRequest, weight: number, send: () => void): void {
    const { socket } = request.raw
    const delayMs = this.#delayMs(senderOf(request), weight)
    if (delayMs === 0 || this.#options.stopping.aborted) send()
    else this.#delay(socket, delayMs, send)
  }

  #delay(socket: Socket, delayMs: number, send: () => void): void {
    const end = (): void => {
      cancel()
      socket.off('close', end)
      this.#delayed.delete(endAndSend)
    }
    const endAndSend = (): void => {
      end()
      send()
    }
    const cancel = this.#options.clock.after(delayMs, endAndSend)
    this.#delayed.add(endAndSend)
    socket.once('close', end)
    this.#options.onDelayed()
  }

  #delayMs(sender: string, weight: number): number {
    const { clock, perSecond } = this.#options
    const nowMs = clock.steadyMs()
    const stepMs = 1000 / perSecond
    const turnMs = Math.max(this.#turnsMs.get(sender) ?? Number.NEGATIVE_INFINITY, nowMs - BURST_MS + stepMs)
    const pacedMs = Math.min(turnMs, nowMs + LONGEST_DELAY_MS)
    // The sender is inserted again, because the map's order decides who is dropped first.
    this.#turnsMs.delete(sender)
    this.#turnsMs.set(sender, pacedMs + weight * stepMs)
    const [oldest] = this.#turnsMs.keys()
    if (this.#turnsMs.size > MAX_SENDERS && oldest !== undefined) this.#turnsMs.delete(oldest)
    return Math.max(0, pacedMs - nowMs)
  }
}

/** A body of unknown length counts after it has been received. */
function weightOf({ headers, bodyMemory }: FastifyRequest): number {
  const announced = Number(headers['content-length'] ?? 0)
  return 1 + Math.floor(Math.max(announced, bodyMemory?.bodyLength ?? 0) / COUNTED_BYTES)
}
