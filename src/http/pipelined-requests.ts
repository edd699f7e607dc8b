/**
 * Handles the requests of a connection one at a time: the next one starts when the response to the previous one has been
 * written. Node would handle all requests that a client pipelines at once. Their bodies and responses would be in memory,
 * uncounted, until the first response is written: 200 connections with 62 requests of 60 KB each took 700 MB.
 *
 * - While a request waits, its connection is not read. In addition to the current request, the connection then holds only what
 *   arrived in the same piece (at most 64 KiB) and the beginning of one body.
 * - A piece may contain thousands of tiny requests, each of which takes far more memory than its text. So waiting requests
 *   count against the share `requests` of the byte budget, under the client's address. If one does not fit, neither that
 *   request nor later ones are read, and the connection is closed after the responses to the earlier ones.
 * - A client that sends invalid HTTP gets the error after the earlier responses. Time in which the connection is not read does
 *   not count towards the timeout of a request.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.ts'
import type { ByteShare } from '../sharing/byte-budget.ts'
import type { OnMemoryRejected } from './load-shedding/memory-share.ts'
import { senderOf } from './network-of.ts'

/** Estimated bytes in memory of a waiting request and its response, without headers. */
const REQUEST_BYTES = 2048
/** Estimated bytes in memory of a header: its name and value as strings, and two list entries. */
const HEADER_BYTES = 64
/** If `onIncoming` returns this value, Node's parser stops at the request. */
const STOP = -1
/** The error code if the waiting requests of a connection exceed their memory. */
export const TOO_MANY_WAIT = 'TOO_MANY_WAIT'

/** Undocumented properties of Node's sockets, which have not changed since Node's first versions. */
interface HttpSocket extends Socket {
  /** The response that is being written. */
  readonly _httpMessage?: ServerResponse<IncomingMessage> | null
  readonly parser?: { onIncoming: () => number } | null
}

export interface PipelinedRequestsOptions {
  readonly share: ByteShare
  readonly clock: Pick<Clock, 'after'>
  /** How many milliseconds a client may take to send a request. */
  readonly requestTimeoutMs: number
  readonly onRejected: OnMemoryRejected
}

export class PipelinedRequests {
  readonly #options: PipelinedRequestsOptions
  /** The connections on which at least one request had to wait. */
  readonly #lines = new WeakMap<Socket, RequestLine>()
  /**
   * The connections whose current request got its full timeout again, because part of it had passed while the connection was
   * not read.
   */
  readonly #late = new Map<Socket, RequestLine>()

  constructor(options: PipelinedRequestsOptions) {
    this.#options = options
  }

  /** Call it after the server's request listener was added: the guard takes the listener's place. */
  guard(server: Server): void {
    const [handle, ...others] = server.listeners('request') as RequestListener[]
    if (handle === undefined || others.length > 0) throw new Error('the server must have one listener')
    server.removeAllListeners('request')
    server.on('request', (request, response) => {
      if (this.#late.size > 0) this.#late.get(request.socket)?.receives(request)
      // Node assigns the socket to a response once all earlier responses have been written.
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
    // Without this, Node would create thousands of responses and keep all of them until the connection closes.
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
  /** The response to the request that arrived last, among those that waited. */
  #last: ServerResponse | null = null
  /** True if no further request can be read from the connection. */
  #isOver = false
  /** Sends the error of a request that has timed out. */
  #answerLate: (() => void) | null = null
  /** The request that got its full timeout again; null until its headers have arrived. */
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
    // Node resumes reading at the end of each request, and when a response that was too fast for the client has been written.
    // So the connection is paused again each time.
    socket.on('resume', this.#pause)
  }

  /** Returns true if the request waits, false if there is no memory for it. */
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
    // If a `resume` is in progress, a pause before its event would have no effect. So the pause comes after it.
    process.nextTick(this.#pause)
    response.once('socket', () => {
      this.#waiting -= 1
      this.#waitingBytes -= bytes
      share.release(this.#sender, bytes)
      // The request starts in the next tick, because Node has not finished the previous response yet.
      process.nextTick(() => {
        if (this.#socket.writable) start()
      })
      if (this.#waiting === 0 && !this.#isOver) this.#readOn()
    })
    return true
  }

  /** Call it when nothing after the requests so far can be read. */
  broken(answer: () => void): void {
    if (this.#isOver) return
    const socket = this.#socket
    const last = this.#waiting > 0 ? this.#last : socket._httpMessage
    if (last?.req.complete) {
      last.once('close', () => {
        // If that response closed the connection, Node has already ended the socket, and nothing more can be written.
        if (socket.writable) answer()
      })
    } else if (this.#waiting > 0) last?.once('socket', answer)
    else answer()
    this.#isOver = true
    this.#pause()
  }

  /** Call it when the request being received has timed out, possibly because the connection was not read. */
  timedOut(answer: () => void): void {
    this.#answerLate = answer
    if (this.#waiting === 0) this.#timeAgain(answer)
  }

  /** Call it when the headers of a request have arrived. */
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
