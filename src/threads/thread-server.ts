/** The HTTP server of a request thread: it is handed its connections, and reports when they are closed. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { answerBrokenRequest } from '../http/broken-requests.ts'
import { BROKEN_REQUEST, CONNECTIONS_CHECK_MS, KEEP_ALIVE_MS, requestId } from '../http/received-requests.ts'
import type { StalledWrites } from '../http/stalled-writes.ts'
import type { ClientLines } from './client-line.ts'
import type { ToMain } from './messages.ts'
import type { TurnPort } from './turn-port.ts'

export interface ThreadServerOptions {
  readonly port: Pick<TurnPort<ToMain>, 'send'>
  readonly lines: ClientLines
  readonly headerTimeoutMs: number
  readonly requestTimeoutMs: number
  /** Makes what closes connections whose client reads nothing. */
  readonly stalledWrites: (onClosed: (socket: Socket) => void) => StalledWrites
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void
}

export class ThreadServer {
  readonly #options: ThreadServerOptions
  readonly #server: Server
  readonly #open = new Map<Socket, number>()
  /** Connections that were closed because their client read nothing. */
  readonly #stalled = new WeakSet<Socket>()
  #isStopping = false
  /** How many connections are to be closed because another thread has fewer, and how many of them have had their last response. */
  #toShed = 0
  #shed = 0

  constructor(options: ThreadServerOptions) {
    this.#options = options
    const { lines, headerTimeoutMs, requestTimeoutMs, stalledWrites, handle } = options
    this.#server = createServer({
      headersTimeout: headerTimeoutMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: CONNECTIONS_CHECK_MS,
      requireHostHeader: false,
    })
    // Not among the options: Node would reject one that is shorter than the timeout of the headers.
    this.#server.requestTimeout = requestTimeoutMs
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      lines.of(request.socket).add(response)
      if (this.#isStopping) response.once('close', () => setImmediate(() => this.#closeIdle()))
      handle(request, response)
    }
    // Expectations other than 100-continue are ignored, as by the HTTP server of the main thread.
    for (const event of ['request', 'checkContinue', 'checkExpectation']) this.#server.on(event, onRequest)
    this.#server.on('clientError', (error: Error & { code?: string }, socket: Socket) =>
      lines.of(socket).end(() => this.answerBroken(error, socket)),
    )
    stalledWrites((socket) => this.#stalled.add(socket)).watch(this.#server)
    // Node begins to look for requests past their timeout when a server listens; this one is handed its connections.
    this.#server.emit('listening')
  }

  /** Serves a connection. It is reported as closed under that number. */
  accept(connection: number, socket: Socket): void {
    this.#open.set(socket, connection)
    socket.once('close', () => this.#closed(socket, connection))
    const others = new Set(socket.listeners('end'))
    this.#server.emit('connection', socket)
    this.#delayEnd(
      socket,
      socket.listeners('end').filter((listener) => !others.has(listener)),
    )
    socket.resume()
    if (this.#isStopping) this.#closeIdle()
  }

  /** Delays how the HTTP server reacts to the end of what the client sends: first it sends the responses that it would have sent by then. */
  #delayEnd(socket: Socket, listeners: readonly ReturnType<Socket['listeners']>[number][]): void {
    for (const listener of listeners) socket.off('end', listener as () => void)
    socket.on('end', () => {
      this.#options.lines.of(socket).end(() => {
        for (const listener of listeners) listener.call(socket)
      })
    })
  }

  /** Whether the connection is to be closed after the response that is about to be sent. Each `true` is acted upon. */
  closes(): boolean {
    if (this.#isStopping) return true
    if (this.#shed >= this.#toShed) return false
    this.#shed += 1
    return true
  }

  shed(connections: number): void {
    this.#toShed += connections
  }

  stop(): void {
    this.#isStopping = true
    this.#closeIdle()
    this.#reportIfDrained()
  }

  cutOff(): void {
    for (const socket of this.#open.keys()) socket.destroy()
  }

  #closeIdle(): void {
    this.#server.closeIdleConnections()
  }

  #closed(socket: Socket, connection: number): void {
    this.#open.delete(socket)
    // One that its client closed is one less, too.
    this.#toShed = Math.max(0, this.#toShed - 1)
    this.#shed = Math.max(0, this.#shed - 1)
    this.#options.port.send(['closed', connection, this.#stalled.has(socket)])
    if (this.#isStopping) this.#reportIfDrained()
  }

  #reportIfDrained(): void {
    if (this.#open.size === 0) this.#options.port.send(['drained'])
  }

  /** Answers what is not valid HTTP, and closes its connection. */
  answerBroken(error: Error & { code?: string }, socket: Socket): void {
    const id = requestId({ headers: {} })
    const status = answerBrokenRequest(error, socket, id)
    if (status === null) return
    const { method, route, ms, from, account, jobIds } = BROKEN_REQUEST
    this.#options.port.send(['completed', id, method, route, status, ms, from, account, jobIds])
  }
}
