/**
 * Handles the requests of a connection one at a time: the next one starts when the response to the previous one has been
 * written. Node would pass on all requests that a client pipelines at once, and their bodies and responses would stay in memory,
 * uncounted, until the first response is written: 200 connections with 62 requests of 60 KB each took 700 MB.
 *
 * - While a request waits, its connection is not read. Then the connection holds, in addition to the current request, only what
 *   arrived in one piece with it (64 KiB at most) and the beginning of one body.
 * - A piece may contain thousands of tiny requests, each of which takes far more memory than its text. They count against the
 *   share of the byte budget for requests, under the client's address. If one does not fit, neither it nor later ones are read,
 *   and the connection is closed after the responses to the earlier ones.
 * - An error of a waiting request is answered after the earlier responses. Time in which the connection is not read does not
 *   count against the time limits of a request.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.ts'
import type { ByteShare } from '../sharing/byte-budget.ts'
import type { OnMemoryRejected } from './load-shedding/memory-share.ts'
import { senderOf } from './network-of.ts'

/** Memory of a waiting request and its response, without headers. */
const REQUEST_BYTES = 2048
/** Memory of a header: its name and value as strings, and their places in the list. */
const HEADER_BYTES = 64
/** Node's parser stops at a request when `onIncoming` returns this. */
const STOP = -1
/** The code of the error when a connection has more waiting requests than may be in memory. */
export const TOO_MANY_WAIT = 'TOO_MANY_WAIT'

/** These undocumented properties have not changed since the first versions of Node. */
interface HttpSocket extends Socket {
  /** The response that is written now. */
  readonly _httpMessage?: ServerResponse<IncomingMessage> | null
  readonly parser?: { onIncoming: () => number } | null
}

export interface PipelinedRequestsOptions {
  readonly share: ByteShare
  readonly clock: Pick<Clock, 'after'>
  /** How long a client may take to send a request. */
  readonly requestTimeoutMs: number
  readonly onRejected: OnMemoryRejected
}

export class PipelinedRequests {
  readonly #options: PipelinedRequestsOptions
  /** Contains connections on which something had to wait. */
  readonly #lines = new WeakMap<Socket, RequestLine>()
  /** Lines whose current request has its full time limit again. */
  readonly #late = new Map<Socket, RequestLine>()

  constructor(options: PipelinedRequestsOptions) {
    this.#options = options
  }

  /** Call this after the server's request listener was added. */
  guard(server: Server): void {
    const [handle, ...others] = server.listeners('request') as RequestListener[]
    if (handle === undefined || others.length > 0) throw new Error('the server must have one listener')
    server.removeAllListeners('request')
    server.on('request', (request, response) => {
      if (this.#late.size > 0) this.#late.get(request.socket)?.receives(request)
      // Node assigns the socket to a response when all earlier responses have been written.
      if (response.socket !== null) handle.call(server, request, response)
      else this.#wait(server, request, response, handle)
    })
  }

  /** Calls `answer` when the responses to all earlier requests of the connection have been written. */
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
    // Otherwise Node would create a response for each of thousands of requests, and keep all of them until the connection closes.
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

/** The requests of one connection. */
class RequestLine {
  readonly #socket: HttpSocket
  readonly #late: Map<Socket, RequestLine>
  readonly #options: PipelinedRequestsOptions
  readonly #sender: string
  #waiting = 0
  #waitingBytes = 0
  /** The newest response that waits or has waited. */
  #last: ServerResponse | null = null
  /** True when nothing more can be read. */
  #isOver = false
  /** Answers a request whose time limit has passed. */
  #answerLate: (() => void) | null = null
  /** The request that has its full time limit again; null until its headers have arrived. */
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
    // Node resumes reading at the end of each request, and after it has written a response for which it had paused.
    socket.on('resume', this.#pause)
  }

  /** Returns true if the request waits for its turn, false if there is no room for it. */
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
    // The pause must come after the event of a `resume` in progress; before it, it would have no effect.
    process.nextTick(this.#pause)
    response.once('socket', () => {
      this.#waiting -= 1
      this.#waitingBytes -= bytes
      share.release(this.#sender, bytes)
      // This comes later, because Node has not finished with the previous response.
      process.nextTick(() => {
        if (this.#socket.writable) start()
      })
      if (this.#waiting === 0 && !this.#isOver) this.#readOn()
    })
    return true
  }

  /** Called when nothing can be read after the requests so far. */
  broken(answer: () => void): void {
    if (this.#isOver) return
    const socket = this.#socket
    const last = this.#waiting > 0 ? this.#last : socket._httpMessage
    if (last?.req.complete) {
      last.once('close', () => {
        // If that response was the connection's last, Node has ended the socket already, and nothing more can be written.
        if (socket.writable) answer()
      })
    } else if (this.#waiting > 0) last?.once('socket', answer)
    else answer()
    this.#isOver = true
    this.#pause()
  }

  /** Called when the request being received exceeds its time limit, which may be because the connection was not read. */
  timedOut(answer: () => void): void {
    this.#answerLate = answer
    if (this.#waiting === 0) this.#timeAgain(answer)
  }

  /** The headers of a request have arrived. */
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
