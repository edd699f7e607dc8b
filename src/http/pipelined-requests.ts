/**
 * Handles the requests of a connection one after the other: the next one when the response to the one before has been written.
 * Node would pass on all requests that a client pipelines at once, and their bodies and responses would be in memory, uncounted,
 * until the first response is written: 200 connections with 62 requests of 60 KB each took 700 MB.
 *
 * - While a request waits, its connection is not read. What a connection holds beyond the request being handled is what arrived
 *   in one piece with it (64 KiB at most), and the beginning of one body.
 * - A piece may contain thousands of tiny requests, each of which takes far more memory than its text. They count against
 *   the share of the byte budget for requests, under the client's address. If one does not fit, it and those behind it are not
 *   read, and the connection is closed after the responses to those before it.
 * - Errors of a request that waits are answered after the responses to those before it. Time in which the connection is not read
 *   does not count against the time limits of a request.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.ts'
import type { ByteShare } from '../sharing/byte-budget.ts'
import type { OnMemoryRejected } from './load-shedding/memory-share.ts'
import { senderOf } from './network-of.ts'

/** A waiting request and its response, without headers. */
const REQUEST_BYTES = 2048
/** A header's name and value as strings, with their places in the list. */
const HEADER_BYTES = 64
/** What Node's parser gets for a request at which it must stop. */
const STOP = -1
/** The error of a connection with more waiting requests than may be in memory. */
export const TOO_MANY_WAIT = 'TOO_MANY_WAIT'

/** Not documented, and the same since the first versions of Node. */
interface ParsedSocket extends Socket {
  readonly parser?: { onIncoming?: ((request: IncomingMessage, keepAlive: boolean) => number) | null } | null
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
  readonly #lines = new WeakMap<Socket, RequestLine>()

  constructor(options: PipelinedRequestsOptions) {
    this.#options = options
  }

  /** Call this when the server has its listeners for requests. */
  guard(server: Server): void {
    const listeners = server.listeners('request') as RequestListener[]
    server.removeAllListeners('request')
    const handle: RequestListener = (request, response) => {
      for (const listener of listeners) listener.call(server, request, response)
    }
    server.on('request', (request, response) => {
      const { socket } = request
      let line = this.#lines.get(socket)
      if (line === undefined) {
        const fail = (error: Error) => server.emit('clientError', error, socket)
        line = new RequestLine(socket, handle, fail, this.#options)
        this.#lines.set(socket, line)
      }
      line.add(request, response)
    })
  }

  /** Calls `answer` when the responses to all earlier requests of the connection have been written. */
  answerBroken(socket: Socket, error: { readonly code?: string }, answer: () => void): void {
    const line = this.#lines.get(socket)
    if (line === undefined) answer()
    else if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') line.timedOut(answer)
    else line.broken(answer)
  }
}

/** The requests of one connection. */
class RequestLine {
  readonly #socket: Socket
  readonly #handle: RequestListener
  readonly #fail: (error: Error) => void
  readonly #options: PipelinedRequestsOptions
  /** The request being handled. */
  #current: IncomingMessage | null = null
  readonly #waiting: { request: IncomingMessage; response: ServerResponse; bytes: number }[] = []
  /** Set when a request first waits. */
  #sender: string | null = null
  /** Called after the last response: the rest of what the client sent is not HTTP. */
  #end: (() => void) | null = null
  /** Answers a request whose time limit passed while the connection was not read. */
  #answerLate: (() => void) | null = null
  /** The first request to be received completely after that; null until its headers have arrived. */
  #late: IncomingMessage | null = null
  #cancelLate: (() => void) | null = null

  constructor(
    socket: Socket,
    handle: RequestListener,
    fail: (error: Error) => void,
    options: PipelinedRequestsOptions,
  ) {
    this.#socket = socket
    this.#handle = handle
    this.#fail = fail
    this.#options = options
  }

  add(request: IncomingMessage, response: ServerResponse): void {
    if (this.#cancelLate !== null) this.#late ??= request
    // Nothing is handled after what is not HTTP, or after a response that closes the connection.
    if (this.#end !== null || !this.#socket.writable) return
    if (this.#current === null) this.#start(request, response)
    else this.#wait(request, response)
  }

  /** Nothing that the client sent after the requests so far can be read. */
  broken(answer: () => void): void {
    if (this.#end !== null) return
    if (!this.#isBehind) {
      answer()
      return
    }
    // The last request, if that is the one.
    const last = this.#waiting.at(-1)
    if (last?.request.complete === false) this.#release(this.#waiting.pop())
    this.#end ??= answer
    this.#socket.pause()
  }

  timedOut(answer: () => void): void {
    if (this.#isBehind) this.#answerLate = answer
    else answer()
  }

  /** Whether what arrives now belongs to a later request than the one being handled. */
  get #isBehind(): boolean {
    return this.#current?.complete === true && this.#socket.writable
  }

  #start(request: IncomingMessage, response: ServerResponse): void {
    this.#current = request
    // Also emitted when the connection closes first.
    response.on('close', this.#next)
    this.#handle(request, response)
  }

  #wait(request: IncomingMessage, response: ServerResponse): void {
    const { share, onRejected } = this.#options
    const sender = this.#sender ?? this.#startWaiting()
    const bytes = REQUEST_BYTES + (request.rawHeaders.length / 2) * HEADER_BYTES
    const decision = share.tryReserve(sender, bytes)
    if (decision === 'granted') {
      this.#waiting.push({ request, response, bytes })
      this.#socket.pause()
    } else {
      onRejected('requests', decision, sender)
      this.#fail(Object.assign(new Error('too many requests wait'), { code: TOO_MANY_WAIT }))
    }
  }

  #startWaiting(): string {
    const socket = this.#socket
    socket.once('close', () => {
      this.#drop()
      this.#cancelLate?.()
    })
    // Node reads on when a response that it has paused for was written.
    socket.on('resume', () => {
      if (this.#waiting.length > 0 || this.#end !== null) socket.pause()
    })
    this.#stopParserAtEnd()
    this.#sender = senderOf({ ip: socket.remoteAddress })
    return this.#sender
  }

  /** Otherwise Node would create a response for each of thousands of requests, and keep all of them until the connection closes. */
  #stopParserAtEnd(): void {
    const { parser } = this.#socket as ParsedSocket
    const onIncoming = parser?.onIncoming
    if (!onIncoming) return
    parser.onIncoming = (request, keepAlive) =>
      this.#end === null ? onIncoming.call(parser, request, keepAlive) : STOP
  }

  readonly #next = (): void => {
    this.#current = null
    // After the last response that the connection can have, it has ended but may not be closed yet.
    if (!this.#socket.writable) {
      this.#drop()
      return
    }
    const next = this.#waiting.shift()
    if (next === undefined) {
      this.#end?.()
      return
    }
    this.#release(next)
    if (this.#waiting.length === 0 && this.#end === null) this.#readOn(next.request)
    this.#start(next.request, next.response)
  }

  #readOn(latest: IncomingMessage): void {
    this.#socket.resume()
    const answer = this.#answerLate
    if (answer === null) return
    this.#answerLate = null
    this.#late = latest.complete ? null : latest
    this.#cancelLate = this.#options.clock.after(this.#options.requestTimeoutMs, () => {
      const isReceived = this.#late?.complete === true
      this.#late = null
      this.#cancelLate = null
      if (!isReceived) this.timedOut(answer)
    })
  }

  #drop(): void {
    for (const waiting of this.#waiting.splice(0)) this.#release(waiting)
  }

  #release(waiting: { readonly bytes: number } | undefined): void {
    if (waiting !== undefined) this.#options.share.release(this.#sender ?? '', waiting.bytes)
  }
}
