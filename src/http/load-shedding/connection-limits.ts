/**
 * Limits open connections, in total and per address, before anything is read, because even an idle connection costs memory. The
 * limit per address does not apply to loopback, Unix sockets and trusted proxies, because one proxy carries the connections of
 * many clients.
 */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Counts } from '../../sharing/counts.ts'
import { JSON_TYPE } from '../envelope.ts'
import { addressesIn, networkOf, networksOf } from '../network-of.ts'

/** Which limit was reached: the name of its setting in `limits`. */
export type ConnectionLimit = 'connections' | 'connections_per_address'

export interface ConnectionLimitsOptions {
  readonly total: number
  readonly perAddress: number
  readonly trustProxy: boolean | string
  readonly onRejected: (limit: ConnectionLimit, address: string | null) => void
}

const DETAILS: Readonly<Record<ConnectionLimit, string>> = {
  connections: 'The server has reached its limit of open connections (limits.connections). Try again later.',
  connections_per_address:
    'Your address has reached the limit of open connections per address (limits.connections_per_address). Close some connections, or reuse them.',
}

export class ConnectionLimits {
  readonly #options: ConnectionLimitsOptions
  readonly #isExempt: (address: string) => boolean
  readonly #open = new Counts<string>()
  #total = 0

  constructor(options: ConnectionLimitsOptions) {
    this.#options = options
    this.#isExempt = exemptAddresses(options.trustProxy)
  }

  /** The number of open connections, without rejected ones. */
  get open(): number {
    return this.#total
  }

  /** Runs before the server's own listeners, so that they only get accepted connections. */
  guard(server: Server): void {
    const listeners = server.listeners('connection')
    server.removeAllListeners('connection')
    server.on('connection', (socket: Socket) => {
      if (this.#accepts(socket)) for (const listener of listeners) listener.call(server, socket)
    })
  }

  /** Counts the connection until it closes. Rejects it if a limit is reached. */
  #accepts(socket: Socket): boolean {
    const { total, perAddress, onRejected } = this.#options
    const address = socket.remoteAddress ?? null
    const network = address === null || this.#isExempt(address) ? null : networkOf(address)
    const limit = this.#total >= total ? 'connections' : 'connections_per_address'
    if (this.#total >= total || (network !== null && this.#open.of(network) >= perAddress)) {
      reject(socket, DETAILS[limit])
      onRejected(limit, address)
      return false
    }
    this.#total += 1
    if (network !== null) this.#open.add(network, 1)
    socket.once('close', () => {
      this.#total -= 1
      if (network !== null) this.#open.add(network, -1)
    })
    return true
  }
}

/**
 * Responds with 503 and closes the connection without reading the request, so a client that has already sent one may get a
 * reset instead.
 */
function reject(socket: Socket, details: string): void {
  const body = JSON.stringify({ success: false, message: 'Too many connections.', details })
  const head = [
    'HTTP/1.1 503 Service Unavailable',
    `content-type: ${JSON_TYPE}`,
    `content-length: ${Buffer.byteLength(body)}`,
    'retry-after: 5',
    'connection: close',
  ]
  socket.on('error', () => {})
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  socket.destroySoon()
}

function exemptAddresses(trustProxy: boolean | string): (address: string) => boolean {
  const isExempt = addressesIn(['127.0.0.0/8', '::1', ...networksOf(trustProxy)])
  return (address) => trustProxy === true || isExempt(address)
}
