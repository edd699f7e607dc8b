/**
 * Handles the requests of a connection one at a time. Node would handle all pipelined requests at once, with their bodies and
 * responses uncounted in memory: 200 connections with 62 requests of 60 KB each took 700 MB.
 *
 * - While a request waits, its connection is not read. In addition to the current request, the connection then holds only what
 *   arrived in the same piece (at most 64 KiB) and the beginning of one body.
 * - A piece may contain thousands of tiny requests, which take far more memory than their text. So waiting requests count
 *   against the share `requests` of the byte budget, under the client's address. A request that does not fit is not read, and
 *   the connection closes after the responses to earlier requests.
 * - A client that sends invalid HTTP gets the error after the responses to its earlier requests.
 * - If a request times out because its connection was not read, it gets its full timeout again.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.ts'
import type { ByteShare } from '../sharing/byte-budget.ts'
import type { OnMemoryRejected } from './load-shedding/memory-share.ts'
import { senderOf } from './network-of.ts'

/** A waiting request and its response take about this much memory, without headers. */
const REQUEST_BYTES = 2048
/** A header takes about this much memory: two strings and two list entries. */
const HEADER_BYTES = 64
/** If `onIncoming` returns this value, Node's parser stops. */
const STOP = -1
export const TOO_MANY_WAIT = 'TOO_MANY_WAIT'

/** Node does not document these properties of sockets, but they have not changed since its first versions. */
interface HttpSocket extends Socket {
  readonly _httpMessage?: ServerResponse<IncomingMessage> | null
  readonly parser?: { onIncoming: () => number } | null
}

export interface PipelinedRequestsOptions {
  readonly share: ByteShare
  readonly clock: Pick<Clock, 'after'>
  /** A client may take this long to send a request. */
  readonly requestTimeoutMs: number
  readonly onRejected: OnMemoryRejected
}

export class PipelinedRequests {
  readonly #options: PipelinedRequestsOptions
  /** On these connections, at least one request or error had to wait. */
  readonly #lines = new WeakMap<Socket, RequestLine>()
  /** These connections were not read for a while, so their current requests got their full timeout again. */
  readonly #late = new Map<Socket, RequestLine>()

  constructor(options: PipelinedRequestsOptions) {
    this.#options = options
  }

  /** Replaces the server's request listener, so call it after that was added. */
  guard(server: Server): void {
    const [handle, ...others] = server.listeners('request') as RequestListener[]
    if (handle === undefined || others.length > 0) throw new Error('the server must have one listener')
    server.removeAllListeners('request')
    server.on('request', (request, response) => {
      if (this.#late.size > 0) this.#late.get(request.socket)?.receives(request)
      // Node assigns the socket once all earlier responses have been written.
      if (response.socket !== null) handle.call(server, request, response)
      else this.#wait(server, request, response, handle)
    })
  }

  /** Calls `answer` once all earlier requests of the connection have their responses. */
  answerBroken(socket: HttpSocket, error: { readonly code?: string }, answer: () => void): void {
    const line = this.#lines.get(socket)
    if (line !== undefined && error.code === 'ERR_HTTP_REQUEST_TIMEOUT') line.timedOut(answer)
    else if (line !== undefined || socket._httpMessage?.req.complete) this.#lineOf(socket).broken(answer)
    else answer()
  }

  #wait(server: Server, request: IncomingMessage, response: ServerResponse, handle: RequestListener): void {
    const socket: HttpSocket = request.socket
    const start = () => handle.call(server, request, response)
    if (this.#lineOf(socket).add(request, response, start)) return
    // An unstopped parser would create thousands of responses and keep them until the connection closes.
    if (socket.parser) socket.parser.onIncoming = () => STOP
    server.emit('clientError', Object.assign(new Error('too many wait'), { code: TOO_MANY_WAIT }), socket)
  }

  #lineOf(socket: Socket): RequestLine {
    let line = this.#lines.get(socket)
    if (line === undefined) {
      line = new RequestLine(socket, this.#late, this.#options)
      this.#lines.set(socket, line)
    }
    return line
  }
}

class RequestLine {
  readonly #socket: HttpSocket
  readonly #late: Map<Socket, RequestLine>
  readonly #options: PipelinedRequestsOptions
  readonly #sender: string
  #waiting = 0
  #waitingBytes = 0
  /** Among the responses to requests that waited, this one is the last. */
  #last: ServerResponse | null = null
  #isOver = false
  /** Sends the error of a request that has timed out. */
  #answerLate: (() => void) | null = null
  /** This request got its full timeout again. It is null until its headers have arrived. */
  #partial: IncomingMessage | null = null
  #cancelLate: (() => void) | null = null

  constructor(socket: HttpSocket, late: Map<Socket, RequestLine>, options: PipelinedRequestsOptions) {
    this.#socket = socket
    this.#late = late
    this.#options = options
    this.#sender = senderOf({ ip: socket.remoteAddress })
    socket.once('close', () => {
      options.share.release(this.#sender, this.#waitingBytes)
      this.#endLate()
    })
    // Node resumes reading at the end of a request, and when a client catches up with a response. The connection stays paused.
    socket.on('resume', this.#pause)
  }

  /** Returns false if there is no memory for the request. */
  add(request: IncomingMessage, response: ServerResponse, start: () => void): boolean {
    const { share, onRejected } = this.#options
    const bytes = REQUEST_BYTES + (request.rawHeaders.length / 2) * HEADER_BYTES
    const decision = share.tryReserve(this.#sender, bytes)
    if (decision !== 'granted') {
      onRejected('requests', decision, this.#sender)
      return false
    }
    this.#waiting += 1
    this.#waitingBytes += bytes
    this.#last = response
    // While a `resume` is in progress, a pause would have no effect, so the pause comes after it.
    process.nextTick(this.#pause)
    response.once('socket', () => {
      this.#waiting -= 1
      this.#waitingBytes -= bytes
      share.release(this.#sender, bytes)
      // Node has not finished the previous response yet, so the request starts in the next tick.
      process.nextTick(() => {
        if (this.#socket.writable) start()
      })
      if (this.#waiting === 0 && !this.#isOver) this.#readOn()
    })
    return true
  }

  /** Call this when nothing after the requests so far can be read. */
  broken(answer: () => void): void {
    if (this.#isOver) return
    const socket = this.#socket
    const last = this.#waiting > 0 ? this.#last : socket._httpMessage
    if (last?.req.complete) {
      last.once('close', () => {
        // If that response closed the connection, Node has already ended the socket.
        if (socket.writable) answer()
      })
    } else if (this.#waiting > 0) last?.once('socket', answer)
    else answer()
    this.#isOver = true
    this.#pause()
  }

  /** Call this when the current request has timed out, possibly because its connection was not read. */
  timedOut(answer: () => void): void {
    this.#answerLate = answer
    if (this.#waiting === 0) this.#timeAgain(answer)
  }

  /** Call this when the headers of a request have arrived. */
  receives(request: IncomingMessage): void {
    this.#partial ??= request
  }

  readonly #pause = (): void => {
    if (this.#waiting > 0 || this.#isOver) this.#socket.pause()
  }

  #readOn(): void {
    this.#socket.resume()
    if (this.#answerLate !== null) this.#timeAgain(this.#answerLate)
  }

  #timeAgain(answer: () => void): void {
    this.#endLate()
    const current = this.#socket._httpMessage?.req
    this.#partial = current?.complete === false ? current : null
    this.#late.set(this.#socket, this)
    this.#cancelLate = this.#options.clock.after(this.#options.requestTimeoutMs, () => {
      const isReceived = this.#partial?.complete
      this.#endLate()
      if (isReceived) return
      if (this.#waiting > 0) this.#answerLate = answer
      else this.broken(answer)
    })
  }

  #endLate(): void {
    this.#cancelLate?.()
    this.#cancelLate = null
    this.#answerLate = null
    this.#partial = null
    this.#late.delete(this.#socket)
  }
}
