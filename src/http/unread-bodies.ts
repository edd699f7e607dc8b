/**
 * Reads and discards, at a limited rate, the rest of a body whose request already has its response. Many clients read the
 * response only after they have sent the whole body, so the connection stays open. Node would read as fast as the body arrives:
 * twenty rejected uploads of 10 MB blocked the event loop for 160 of 350 ms.
 *
 * - Senders (accounts, or addresses without a key) take turns, so that the bodies of one sender do not delay those of others.
 * - If too many bodies are waiting, in total or of one sender, the next connection is closed after its response.
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { Counts } from '../sharing/counts.ts'
import { senderOf } from './network-of.ts'

/** Node itself discards smaller bodies, which arrive in one or two pieces. */
const SMALL_BYTES = 64 * 1024
/** Reading 10 MB takes up to 30 ms of CPU time, so this rate takes at most a tenth of the event loop's time. */
const BYTES_PER_MS = 32 * 1024
/** After a pause, at most this much is read at once. */
const BURST_BYTES = 125 * BYTES_PER_MS
/** Node reads at most this much from a connection at once. */
const PIECE_BYTES = 64 * 1024
/** Several senders have a turn in each round, and this is the pause between rounds. */
const ROUND_MS = 5
/** At most this many bodies wait, in total and of one sender, because each may hold a piece in memory. */
const MAX_BODIES = 256
const MAX_OF_SENDER = 64

export class UnreadBodies {
  readonly #clock: Pick<Clock, 'steadyMs' | 'after'>
  readonly #bodies = new Counts<string>()
  /** The first sender in the map has the next turn. */
  readonly #ready = new Map<string, IncomingMessage[]>()
  #creditBytes = BURST_BYTES
  #creditedMs: number
  #isPaced = true
  #waits = false

  /** @param stopping aborted at shutdown, which waits for the bodies, so they are then read at full speed */
  constructor(clock: Pick<Clock, 'steadyMs' | 'after'>, stopping: AbortSignal) {
    this.#clock = clock
    this.#creditedMs = clock.steadyMs()
    stopping.addEventListener('abort', () => {
      this.#isPaced = false
      this.#round()
    })
  }

  /** Call this before the response to a request whose body has not fully arrived. */
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
      // A handler that stopped reading has paused the body, and Node does not discard a paused body.
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
    // After its response, the request of a client that disconnects emits no `close`.
    socket.once('close', end)
    // Because of this listener, Node does not discard the body. `pause` and `resume` are used instead of `read`, which may
    // leave a piece in the buffer without any further event.
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
      // The next piece pauses the body again.
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
 * If the connection closed with the response, a client that is still sending, such as Python's urllib, would see a reset. So
 * the connection closes only after the body has arrived.
 */
function closeAfter(body: IncomingMessage): void {
  const { socket } = body
  const destroySoon = socket.destroySoon.bind(socket)
  // Node calls `destroySoon` after the last response of a connection.
  socket.destroySoon = () => {
    if (body.complete) return destroySoon()
    socket.end()
    body.once('end', destroySoon)
  }
}
