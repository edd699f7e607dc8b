/**
 * Sends requests of a request thread on to the HTTP server of the main thread, and their responses back. Each connection of a client
 * has a tunnel of its own, opened with the first request that needs it, so the main thread sees who sends what on which connection.
 */
import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  request as openRequest,
  type ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ClientLines } from './client-line.ts'

/**
 * Headers about one connection, of which there are two here (RFC 9110 §7.6.1). `trailer` only announces what nobody reads, and Node
 * throws if a request without chunks has it.
 */
const OF_CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'trailer',
  'upgrade',
])
/** The server writes the response in pieces where its client can read that. */
const NOT_SENT_BACK: ReadonlySet<string> = new Set([...OF_CONNECTION, 'transfer-encoding'])
const NOT_SENT_BACK_CLOSING: ReadonlySet<string> = new Set(
  [...NOT_SENT_BACK].filter((name) => name !== 'connection'),
)
/** In HTTP/1.0 there is no 100 Continue (RFC 9110 §10.1.1). */
const OF_OLD_CLIENTS: ReadonlySet<string> = new Set([...OF_CONNECTION, 'expect'])
/** Without a body, Node sends these as they are. */
const SENT_WITHOUT_LENGTH: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'])

export interface ForwarderOptions {
  readonly lines: ClientLines
  /** Opens a connection to the HTTP server of the main thread for the client at that address. */
  readonly open: (address: string | null) => Duplex
  /** Whether the connection is to be closed after the response that is about to be sent. */
  readonly closes: () => boolean
  /** Answers a request that Node received, but does not send. */
  readonly onUnsendable: (socket: Socket) => void
}

export class Forwarder {
  readonly #options: ForwarderOptions
  readonly #agents = new WeakMap<Socket, Agent>()

  constructor(options: ForwarderOptions) {
    this.#options = options
  }

  /** @param body what the request had as its body, if that was read */
  forward(request: IncomingMessage, response: ServerResponse, body: Buffer | null): void {
    if (request.socket.destroyed) return
    const forwarded = this.#open(request)
    if (forwarded === null) return
    const { socket } = request
    const line = this.#options.lines.of(socket)
    line.forwarded(response, forwarded)
    forwarded.on('continue', () => response.writeContinue())
    forwarded.on('response', (answer) => this.#sendBack(answer, response))
    forwarded.on('error', () => {
      // The main thread may answer and close before it has read all of a body.
      if (!response.headersSent) line.lost(response)
    })
    forwarded.once('close', () => request.resume())
    response.once('close', () => {
      // After a whole response, the tunnel serves the next request.
      if (!response.writableFinished) forwarded.destroy()
    })
    if (body !== null) forwarded.end(body)
    else {
      // A request may be rejected before anything of its body has arrived.
      forwarded.flushHeaders()
      request.once('error', () => forwarded.destroy())
      request.pipe(forwarded)
    }
  }

  /** Node checks what it sends more strictly than what it receives. */
  #open(request: IncomingMessage): ClientRequest | null {
    const { socket, method, url } = request
    const headers = headersOf(request)
    try {
      return openRequest({ agent: this.#agentOf(socket), method, path: url, headers })
    } catch {
      this.#options.onUnsendable(socket)
      return null
    }
  }

  #sendBack(answer: IncomingMessage, response: ServerResponse): void {
    const isClosing = answer.headers.connection === 'close'
    const headers = without(answer.rawHeaders, isClosing ? NOT_SENT_BACK_CLOSING : NOT_SENT_BACK)
    if (!isClosing && this.#options.closes()) headers.push('connection', 'close')
    // Node adds it to all responses but those to what is not valid HTTP.
    if (answer.headers.date === undefined) response.sendDate = false
    response.writeHead(answer.statusCode ?? 500, headers)
    answer.once('error', () => response.destroy())
    answer.pipe(response)
  }

  #agentOf(socket: Socket): Agent {
    let agent = this.#agents.get(socket)
    if (agent === undefined) {
      // For requests that still wait when their client hangs up, the agent would open another tunnel, which nothing would close.
      agent = new TunnelAgent(() =>
        socket.destroyed ? null : this.#options.open(socket.remoteAddress ?? null),
      )
      const used = agent
      socket.once('close', () => used.destroy())
      this.#agents.set(socket, agent)
    }
    return agent
  }
}

/** Requests of one connection take turns, as they would without a tunnel. */
class TunnelAgent extends Agent {
  readonly #open: () => Duplex | null

  /** @param open returns null if no further request is to be sent */
  constructor(open: () => Duplex | null) {
    super({ keepAlive: true, maxSockets: 1 })
    this.#open = open
  }

  override createConnection(): Duplex | null {
    return this.#open()
  }
}

/** A client older than HTTP/1.1 need not name a host, and the tunnel speaks HTTP/1.1. */
function headersOf({ httpVersion, rawHeaders, headers: given, method = '' }: IncomingMessage): string[] {
  const isOld = httpVersion !== '1.1'
  const headers = without(rawHeaders, isOld ? OF_OLD_CLIENTS : OF_CONNECTION)
  if (isOld && given.host === undefined) headers.push('host', 'localhost')
  const hasBody = given['content-length'] !== undefined || given['transfer-encoding'] !== undefined
  // Node would announce an empty body in chunks, which needs a content type.
  if (!hasBody && !SENT_WITHOUT_LENGTH.has(method)) headers.push('content-length', '0')
  return headers
}

function without(headers: readonly string[], left: ReadonlySet<string>): string[] {
  const kept: string[] = []
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const [name = '', value = ''] = headers.slice(at, at + 2)
    if (!left.has(name.toLowerCase())) kept.push(name, value)
  }
  return kept
}
