/**
 * Reads and discards, at a limited rate, the rest of a body whose request already has its response. Many clients read the
 * response only after they have sent the whole body, so the connection stays open. Node would read the rest as fast as it
 * arrives: twenty rejected uploads of 10 MB blocked the event loop for 160 of 350 ms.
 *
 * - Senders (accounts, or addresses without a key) take turns, one piece each, so that the bodies of one do not delay those of
 *   others.
 * - If too many bodies are waiting, in total or of one sender, the connection of the next one is closed after its response.
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { Counts } from '../sharing/counts.ts'
import { senderOf } from './network-of.ts'

/** Node.js discards bodies up to this size by itself: they arrive in one or two pieces. */
const SMALL_BYTES = 64 * 1024
/** Reading 10 MB takes up to 30 ms of CPU time. At this rate, reading takes at most a tenth of the event loop's time. */
const BYTES_PER_MS = 32 * 1024
/** After a pause, at most this many bytes are read at once: an eighth of a second at the rate. */
const BURST_BYTES = 125 * BYTES_PER_MS
/** How many bytes Node reads from a connection at once. */
const PIECE_BYTES = 64 * 1024
/** The pause between two rounds, in each of which several senders have a turn. */
const ROUND_MS = 5
/** Maximum number of waiting bodies, because each may hold a piece in memory. */
const MAX_BODIES = 256
/** Maximum number of waiting bodies per sender. */
const MAX_OF_SENDER = 64

export class UnreadBodies {
  readonly #clock: Pick<Clock, 'steadyMs' | 'after'>
  readonly #bodies = new Counts<string>()
  /** Paused bodies by sender; the sender that is first in the map has the next turn. */
  readonly #ready = new Map<string, IncomingMessage[]>()
  #creditBytes = BURST_BYTES
  #creditedMs: number
  #isPaced = true
  #waits = false

  /**
   * @param stopping aborted when the server shuts down. Bodies are then read at full speed, because the shutdown waits for
   * their connections.
   */
  constructor(clock: Pick<Clock, 'steadyMs' | 'after'>, stopping: AbortSignal) {
    this.#clock = clock
    this.#creditedMs = clock.steadyMs()
    stopping.addEventListener('abort', () => {
      this.#isPaced = false
      this.#round()
    })
  }

  /** Call it before the response to a request whose body has not fully arrived. */
  discard(request: FastifyRequest, reply: FastifyReply): void {
    const { raw, headers } = request
    const length = headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : null
    if (raw.destroyed) return
    const isSmall = length !== null && length <= SMALL_BYTES
    const sender = senderOf(request)
    const isFull = this.#bodies.total >= MAX_BODIES || this.#bodies.of(sender) >= MAX_OF_SENDER
    if (!isSmall && isFull) {
      reply.header('connection', 'close')
      return
    }
    if (!reply.raw.shouldKeepAlive || reply.getHeader('connection') === 'close') closeAfter(raw)
    if (isSmall) {
      // A handler that stopped reading in the middle has paused the body, and Node does not discard a paused body.
      raw.resume()
      return
    }
    const { socket } = raw
    const end = (): void => {
      this.#bodies.add(sender, -1)
      raw.off('end', end)
      socket.off('close', end)
    }
    this.#bodies.add(sender, 1)
    raw.once('end', end)
    // Once the response has been sent, Node emits no `close` for the request of a client that hangs up.
    socket.once('close', end)
    // Because of this listener, Node considers the body as read by us and does not discard it. `pause` and `resume` are used
    // instead of `read`, because after a `read` a piece may be left in the buffer without any further event.
    raw.on('data', (piece: Buffer) => {
      this.#creditBytes -= piece.length
      if (!this.#isPaced) return
      raw.pause()
      this.#add(sender, raw)
    })
    raw.resume()
  }

  #add(sender: string, body: IncomingMessage): void {
    const bodies = this.#ready.get(sender)
    if (bodies === undefined) this.#ready.set(sender, [body])
    else bodies.push(body)
    if (!this.#waits) this.#round()
  }

  #round(): void {
    this.#waits = false
    const nowMs = this.#clock.steadyMs()
    const earnedBytes = (nowMs - this.#creditedMs) * BYTES_PER_MS
    this.#creditBytes = Math.min(BURST_BYTES, this.#creditBytes + earnedBytes)
    this.#creditedMs = nowMs
    for (let bytes = 0; bytes < this.#creditBytes || !this.#isPaced; bytes += PIECE_BYTES) {
      const body = this.#next()
      if (body === undefined) return
      // The body is paused again when its next piece arrives.
      body.resume()
    }
    this.#waits = true
    this.#clock.after(ROUND_MS, () => this.#round())
  }

  #next(): IncomingMessage | undefined {
    const [first] = this.#ready
    if (first === undefined) return
    const [sender, bodies] = first
    const body = bodies.shift()
    this.#ready.delete(sender)
    if (bodies.length > 0) this.#ready.set(sender, bodies)
    return body
  }
}

/**
 * Keeps the connection of a client that wants it closed after the response until its body has arrived. Node would close it with
 * the response, and a client that still sends, as Python's urllib, would see a reset instead of the response.
 */
function closeAfter(body: IncomingMessage): void {
  const { socket } = body
  const destroySoon = socket.destroySoon.bind(socket)
  // Node calls this after the last response of a connection.
  socket.destroySoon = () => {
    if (body.complete) return destroySoon()
    socket.end()
    body.once('end', destroySoon)
  }
}
