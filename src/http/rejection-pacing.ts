/**
 * Answers rejected requests at a limited pace. A rejected request is not limited by slots, quotas or caps, and costs the event loop
 * nearly as much as a job, so an account or an address that sends many of them would take the event loop from the others. The answers
 * to those beyond the pace are delayed: a client that waits for its answer sends no more than the pace allows.
 *
 * - Every account has a pace of its own, and so has every address for requests without a valid key.
 * - A rejected request counts once, and once more for each 2 KiB of its body: those were received, and perhaps read and counted.
 * - Files that need no key, such as those of /docs, count by address, once for each 16 KiB: sixteen connections that read one of 3 MB
 *   again and again took the whole event loop.
 * - A second's worth may be sent at once; only beyond it, answers are delayed, each until its turn and for ten seconds at most.
 * - One answer is delayed for each connection at a time. Those to requests that a client sends behind it wait for it in any case, and
 *   their bytes count: Node stops to read a connection whose answers pile up.
 */
import type { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { senderOf } from './network-of.ts'
import './request-context.ts'

/** What is answered at once, in time at the pace. */
const BURST_MS = 1000
/** Bytes of a body that count like a request: 10 MB take the threads of the CPU pool as long as 5,000 unknown keys the event loop. */
const COUNTED_BYTES = 2 * 1024
/** Bytes of a file that count like a request. */
const COUNTED_SENT_BYTES = 16 * 1024
const LONGEST_DELAY_MS = 10_000
/** Accounts and addresses that are counted at the same time. Beyond this, the oldest is forgotten. */
const MAX_SENDERS = 10_000

export interface RejectionPacingOptions {
  readonly perSecond: number
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  /** Aborted when the server stops: all answers are then sent at once. */
  readonly stopping: AbortSignal
  readonly onDelayed: () => void
}

export class RejectionPacing {
  readonly #options: RejectionPacingOptions
  /** When the pace has a turn for the next rejection of each sender. */
  readonly #turnsMs = new Map<string, number>()
  readonly #delayed = new Map<Socket, () => void>()

  constructor(options: RejectionPacingOptions) {
    this.#options = options
    options.stopping.addEventListener('abort', () => {
      for (const send of this.#delayed.values()) send()
    })
  }

  /** Calls `send` now or after a delay, once; never if the client hangs up first. */
  pace(request: FastifyRequest, send: () => void): void {
    this.#pace(request, weightOf(request), send)
  }

  /** The same for an answer of so many bytes to a request that needs no key. */
  paceDownload(request: FastifyRequest, bytes: number, send: () => void): void {
    const weight = Math.floor(bytes / COUNTED_SENT_BYTES)
    if (weight === 0) send()
    else this.#pace(request, weight, send)
  }

  #pace(request: FastifyRequest, weight: number, send: () => void): void {
    const { socket } = request.raw
    const delayMs = this.#delayMs(senderOf(request), weight)
    if (delayMs === 0 || this.#options.stopping.aborted || this.#delayed.has(socket)) send()
    else this.#delay(socket, delayMs, send)
  }

  #delay(socket: Socket, delayMs: number, send: () => void): void {
    const end = (): void => {
      cancel()
      socket.off('close', end)
      this.#delayed.delete(socket)
    }
    const endAndSend = (): void => {
      end()
      send()
    }
    const cancel = this.#options.clock.after(delayMs, endAndSend)
    this.#delayed.set(socket, endAndSend)
    socket.once('close', end)
    this.#options.onDelayed()
  }

  #delayMs(sender: string, weight: number): number {
    const { clock, perSecond } = this.#options
    const nowMs = clock.steadyMs()
    const stepMs = 1000 / perSecond
    const turnMs = Math.max(this.#turnsMs.get(sender) ?? Number.NEGATIVE_INFINITY, nowMs - BURST_MS + stepMs)
    const pacedMs = Math.min(turnMs, nowMs + LONGEST_DELAY_MS)
    // Inserted again, because the map's insertion order decides who is forgotten first.
    this.#turnsMs.delete(sender)
    this.#turnsMs.set(sender, pacedMs + weight * stepMs)
    const [oldest] = this.#turnsMs.keys()
    if (this.#turnsMs.size > MAX_SENDERS && oldest !== undefined) this.#turnsMs.delete(oldest)
    return Math.max(0, pacedMs - nowMs)
  }
}

/** A body of unknown length counts once it was received. */
function weightOf({ headers, bodyMemory }: FastifyRequest): number {
  const announced = Number(headers['content-length'] ?? 0)
  return 1 + Math.floor(Math.max(announced, bodyMemory?.bodyLength ?? 0) / COUNTED_BYTES)
}
