/**
 * Reads and drops, at a limited rate, the rest of a body whose request already has its response. Many clients read the response
 * only after they have sent everything, so their connections are not closed. Node would read such bodies as fast as they arrive:
 * twenty rejected uploads of 10 MB held the event loop for 160 ms within 350 ms.
 *
 * - Accounts and addresses take turns, one piece each, so that many bodies of one do not delay those of another.
 * - When too many bodies wait, the connection of the next one is closed after its response.
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { Counts } from '../sharing/counts.ts'
import { senderOf } from './network-of.ts'

/** Shorter bodies are left to Node: they arrive in a piece or two. */
const SMALL_BYTES = 64 * 1024
/** Reading 10 MB takes up to 30 ms of CPU time, so this rate is at most a tenth of the event loop's time. */
const BYTES_PER_MS = 32 * 1024
/** After a pause, this much is read at once: an eighth of a second at the rate. */
const BURST_BYTES = 125 * BYTES_PER_MS
/** How much Node reads from a connection at once. */
const PIECE_BYTES = 64 * 1024
/** The pause between two rounds of pieces. */
const ROUND_MS = 5
/** At most this many bodies wait, because each may hold a piece in memory. */
const MAX_BODIES = 256
/** Of these, at most this many are of one account, or of one address if they have no key. */
const MAX_OF_SENDER = 64

export class UnreadBodies {
  readonly #clock: Pick<Clock, 'steadyMs' | 'after'>
  readonly #bodies = new Counts<string>()
  /** Bodies that are paused, by sender; the first sender is next. */
  readonly #ready = new Map<string, IncomingMessage[]>()
  #creditBytes = BURST_BYTES
  #creditedMs: number
  #isPaced = true
  #waits = false

  /** @param stopping aborted when the server stops: bodies are then read as they arrive, because the stop waits for their connections */
  constructor(clock: Pick<Clock, 'steadyMs' | 'after'>, stopping: AbortSignal) {
    this.#clock = clock
    this.#creditedMs = clock.steadyMs()
    stopping.addEventListener('abort', () => {
      this.#isPaced = false
      this.#round()
    })
  }

  /** Call this before the response is sent, for a request whose body has not arrived in full. */
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
    if (!reply.raw.shouldKeepAlive) closeAfter(raw)
    if (isSmall) {
      // A route that stopped reading in the middle has paused the body, and Node then does not drop it.
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
    // With this listener, Node considers the body read and does not drop it. `pause` and `resume` rather than `read`: a read may
    // leave a piece in the buffer, of which no event tells.
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
      // It pauses again with its next piece.
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
