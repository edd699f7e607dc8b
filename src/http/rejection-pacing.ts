/**
 * Delays responses to rejected requests over a rate per sender. Slots, quotas and caps do not limit such requests, although
 * each costs the event loop nearly as much time as a job, so one sender could starve the others.
 *
 * - A sender is an account or, for requests without a valid key, an address.
 * - A rejected request counts once, and once more for each 2 KiB of its body, because the body was received and perhaps parsed.
 * - Files that need no key, such as those of /docs, count once for each 16 KiB: sixteen connections that repeatedly read one of
 *   3 MB used up the whole event loop.
 * - Each sender gets as many responses at once as the rate allows in a second. Further ones wait for their turn, but for ten
 *   seconds at most.
 */
import type { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { senderOf } from './network-of.ts'
import './request-context.ts'

/** Responses that the rate allows in this time are sent at once. */
const BURST_MS = 1000
/** Bodies count, because 10 MB of them cost the CPU pool as much time as 5,000 unknown keys cost the event loop. */
const COUNTED_BYTES = 2 * 1024
const COUNTED_SENT_BYTES = 16 * 1024
const LONGEST_DELAY_MS = 10_000
/** Beyond this number, the sender that has been inactive for longest is forgotten. */
const MAX_SENDERS = 10_000

export interface RejectionPacingOptions {
  readonly perSecond: number
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  /** Aborts when the server shuts down. Delayed responses are then sent at once. */
  readonly stopping: AbortSignal
  readonly onDelayed: () => void
}

export class RejectionPacing {
  readonly #options: RejectionPacingOptions
  /** Maps each sender to the time of its next response, on the steady clock. */
  readonly #turnsMs = new Map<string, number>()
  readonly #delayed = new Set<() => void>()

  constructor(options: RejectionPacingOptions) {
    this.#options = options
    options.stopping.addEventListener('abort', () => {
      for (const send of this.#delayed) send()
    })
  }

  /** Calls `send` once, now or after a delay, unless the client disconnects before. */
  pace(request: FastifyRequest, send: () => void): void {
    this.#pace(request, weightOf(request), send)
  }

  /** Like `pace`, for a file that needs no key. Files of less than 16 KiB are not counted. */
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
    // The map drops its first entry when it is full, so a sender that is seen again moves to the end.
    this.#turnsMs.delete(sender)
    this.#turnsMs.set(sender, pacedMs + weight * stepMs)
    const [oldest] = this.#turnsMs.keys()
    if (this.#turnsMs.size > MAX_SENDERS && oldest !== undefined) this.#turnsMs.delete(oldest)
    return Math.max(0, pacedMs - nowMs)
  }
}

/** The length of a body without Content-Length is known only once the body has been received. */
function weightOf({ headers, bodyMemory }: FastifyRequest): number {
  const announced = Number(headers['content-length'] ?? 0)
  return 1 + Math.floor(Math.max(announced, bodyMemory?.bodyLength ?? 0) / COUNTED_BYTES)
}
