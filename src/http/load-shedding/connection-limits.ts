/**
 * Limits open connections, in total and per address, because even an idle connection costs memory. The limit per address does
 * not apply to loopback, Unix sockets and trusted proxies, because one proxy carries the connections of many clients. Also
 * closes connections whose clients do not read, because their responses stay in memory.
 */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../../clock.ts'
import { Counts } from '../../sharing/counts.ts'
import { JSON_TYPE } from '../envelope.ts'
import { addressesIn, networkOf, networksOf } from '../network-of.ts'

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

  /** Does not include rejected connections. */
  get open(): number {
    return this.#total
  }

  /** Runs before the server's own listeners, which thus get accepted connections only. */
  guard(server: Server): void {
    const listeners = server.listeners('connection')
    server.removeAllListeners('connection')
    server.on('connection', (socket: Socket) => {
      if (this.#accepts(socket)) for (const listener of listeners) listener.call(server, socket)
    })
  }

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

/** Responds with 503 without reading the request. A client that has already sent one may get a reset instead. */
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

/** A stalled connection is closed at most a quarter of the limit late. */
const CHECKS = 4

interface StalledWritesOptions {
  readonly clock: Clock
  readonly limitMs: number
  readonly onClosed: (address: string | null) => void
}

interface Progress {
  /** The operating system has taken this many bytes. `written` is null if no bytes wait to be written. */
  written: number | null
  sinceMs: number
}

/** Closes stalled connections: bytes wait to be written, and the operating system has taken none of them for the time limit. */
export class StalledWrites {
  readonly #options: StalledWritesOptions
  readonly #connections = new Map<Socket, Progress>()
  #cancelCheck: (() => void) | null = null

  constructor(options: StalledWritesOptions) {
    this.#options = options
  }

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      this.#connections.set(socket, { written: null, sinceMs: 0 })
      socket.once('close', () => this.#connections.delete(socket))
      this.#checkLater()
    })
  }

  /** Without connections, no timer runs. */
  #checkLater(): void {
    if (this.#cancelCheck !== null || this.#connections.size === 0) return
    const { clock, limitMs } = this.#options
    this.#cancelCheck = clock.after(limitMs / CHECKS, () => {
      this.#cancelCheck = null
      this.#check()
      this.#checkLater()
    })
  }

  #check(): void {
    const { clock, limitMs, onClosed } = this.#options
    const nowMs = clock.steadyMs()
    for (const [socket, progress] of this.#connections) {
      const written = socket.writableLength === 0 ? null : socket.bytesWritten - socket.writableLength
      if (written === null || written !== progress.written) {
        progress.written = written
        progress.sinceMs = nowMs
      } else if (nowMs - progress.sinceMs >= limitMs) {
        const address = socket.remoteAddress ?? null
        this.#connections.delete(socket)
        // An orderly close would wait for the client to read the rest. A Unix socket cannot be reset.
        if (address === null) socket.destroy()
        else socket.resetAndDestroy()
        onClosed(address)
      }
    }
  }
}
