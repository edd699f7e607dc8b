/**
 * The requests of one connection, in order. When a client has nothing more to send, or has sent what is not HTTP, Node ends the
 * connection at once. The HTTP server of the main thread has answered by then what it can answer at once; a request thread still waits
 * for these answers, so it ends the connection after them.
 */
import type { ClientRequest, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Requests of a connection that may wait for their response while more are read. Node stops reading only when responses pile up, and
 * those of forwarded requests are written one after the other.
 */
const MAX_UNANSWERED = 64

/** The lines of all connections. */
export class ClientLines {
  readonly #lines = new WeakMap<Socket, ClientLine>()

  of(socket: Socket): ClientLine {
    let line = this.#lines.get(socket)
    if (line === undefined) {
      line = new ClientLine(socket)
      this.#lines.set(socket, line)
    }
    return line
  }
}

export class ClientLine {
  readonly #socket: Socket
  /** Responses that are not sent yet, the first of them first. */
  readonly #open = new Set<ServerResponse>()
  readonly #forwarded = new WeakMap<ServerResponse, ClientRequest>()
  /** What is left to do to end the connection. */
  readonly #endings: (() => void)[] = []

  constructor(socket: Socket) {
    this.#socket = socket
    // Also called when the body of an earlier request is to be read.
    socket.on('resume', () => this.#limit())
  }

  add(response: ServerResponse): void {
    this.#open.add(response)
    this.#limit()
    response.once('close', () => this.#remove(response))
  }

  forwarded(response: ServerResponse, request: ClientRequest): void {
    this.#forwarded.set(response, request)
    if (this.#endings.length > 0) this.#next()
  }

  /** The main thread has closed the tunnel of a forwarded request without a response. */
  lost(response: ServerResponse): void {
    if (this.#endings.length === 0) this.#socket.destroy()
    else this.#remove(response)
  }

  /** Calls this once the responses before it are sent, for as long as they come from the main thread, whose connection ends, too. */
  end(finish: () => void): void {
    this.#endings.push(finish)
    this.#next()
  }

  #remove(response: ServerResponse): void {
    this.#open.delete(response)
    if (this.#open.size === MAX_UNANSWERED) this.#socket.resume()
    if (this.#endings.length > 0) this.#next()
  }

  #limit(): void {
    if (this.#open.size > MAX_UNANSWERED) this.#socket.pause()
  }

  #next(): void {
    const [first] = this.#open
    const request = first && this.#forwarded.get(first)
    if (request !== undefined && !this.#socket.destroyed) endTunnel(request, first?.req.complete ?? false)
    else for (const finish of this.#endings.splice(0)) finish()
  }
}

/** @param isWhole whether all of the request has arrived, and is to be sent before the end */
function endTunnel(request: ClientRequest, isWhole: boolean): void {
  const end = () => {
    if (request.socket) request.socket.end()
    // What it has sent so far is written to the tunnel in the same turn, after this event.
    else request.once('socket', (tunnel) => setImmediate(() => tunnel.end()))
  }
  if (isWhole && !request.writableFinished) request.once('finish', end)
  else end()
}
