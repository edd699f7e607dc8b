/**
 * Pools idle connections for the next callback to the same origin. Each connection's address was checked when it was opened, and
 * cannot change. Their number and age are bounded, so that many origins cost no more than a few.
 *
 * Each connection is an undici `Client`. Undici's `Pool` and `Agent` do not bound idle connections, nor open a new connection
 * for a retry (docs/internals/decisions.md).
 */
import type { Socket } from 'node:net'
import { Client } from 'undici'
import type { Clock } from '../clock.ts'

/** The maximum numbers of idle connections. Beyond `total`, the least recently used origin loses one. */
export interface IdleLimits {
  readonly total: number
  readonly perOrigin: number
}

/** A connection may be idle this long; less if the receiver announces less. */
const IDLE_TIMEOUT_MS = 4000

/** A connection in constant use is closed after this, so that a receiver can move to another address in DNS. */
export const MAX_CONNECTION_AGE_MS = 60_000

/** The maximum size of a receiver's response headers, as in Node's own server. */
const MAX_HEADERS_BYTES = 16_384

/** One HTTP/1.1 connection. One callback uses it at a time, and it is never reopened after it has closed. */
export interface Connection {
  readonly origin: string
  readonly client: Client
  readonly socket: Socket
  readonly openedAtMs: number
}

/** The error code of a request on a connection that had closed before the request was sent. */
export const CONNECTION_CLOSED = 'PARLEY_CONNECTION_CLOSED'

/** Closes a connection at once, even in the middle of a request. */
export async function closeConnection(connection: Connection, reason: Error | null = null): Promise<void> {
  const closed = connection.client.destroy(reason)
  // A client takes over its socket with its first request, so it does not close the socket if no request was sent.
  connection.socket.destroy()
  await closed
}

export interface ConnectionPool {
  /** Makes a connected socket an HTTP/1.1 connection that the caller uses at once. */
  open(origin: string, socket: Socket): Connection
  /** Takes an idle connection to this origin out of the pool; null if there is none. */
  acquire(origin: string): Connection | null
  /** Returns a connection to the pool, which keeps it idle or closes it. */
  release(connection: Connection): void
  /** Closes all idle connections, and from now on every connection that is released. */
  close(): Promise<void>
}

export function createConnectionPool(clock: Clock, limits: IdleLimits): ConnectionPool {
  /** Idle connections by origin, the least recently used origin first. */
  const byOrigin = new Map<string, Connection[]>()
  let count = 0
  let closed = false

  function remove(connection: Connection): void {
    const idle = byOrigin.get(connection.origin) ?? []
    const index = idle.indexOf(connection)
    if (index === -1) return
    idle.splice(index, 1)
    count -= 1
    if (idle.length === 0) byOrigin.delete(connection.origin)
  }

  function drop(connection: Connection): void {
    remove(connection)
    void closeConnection(connection)
  }

  function isUsable(connection: Connection): boolean {
    return (
      connection.client.stats.connected && clock.steadyMs() - connection.openedAtMs < MAX_CONNECTION_AGE_MS
    )
  }

  return {
    open(origin, socket) {
      const client = createClient(origin, socket)
      const connection = { origin, client, socket, openedAtMs: clock.steadyMs() }
      client.once('disconnect', () => drop(connection))
      return connection
    },

    acquire(origin) {
      for (;;) {
        // The receiver is least likely to close the most recently used connection just now.
        const connection = byOrigin.get(origin)?.at(-1)
        if (connection === undefined) return null
        remove(connection)
        if (isUsable(connection)) return connection
        void closeConnection(connection)
      }
    },

    release(connection) {
      const idle = byOrigin.get(connection.origin) ?? []
      if (closed || !isUsable(connection) || idle.length >= limits.perOrigin) {
        void closeConnection(connection)
        return
      }
      idle.push(connection)
      byOrigin.delete(connection.origin)
      byOrigin.set(connection.origin, idle)
      count += 1
      const oldest = byOrigin.values().next().value?.[0]
      if (count > limits.total && oldest !== undefined) drop(oldest)
    },

    async close() {
      closed = true
      const all = [...byOrigin.values()].flat()
      byOrigin.clear()
      count = 0
      await Promise.all(all.map((connection) => closeConnection(connection)))
    },
  }
}

/** The caller handles timeouts: undici's own are off. */
function createClient(origin: string, socket: Socket): Client {
  let connected = false
  return new Client(origin, {
    // The callback runs in a microtask: a client whose connector calls back synchronously never sends its request.
    connect: (_options, callback) =>
      queueMicrotask(() => {
        if (connected || socket.destroyed) {
          callback(Object.assign(new Error('the connection is closed'), { code: CONNECTION_CLOSED }), null)
          return
        }
        connected = true
        callback(null, socket)
      }),
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: IDLE_TIMEOUT_MS,
    keepAliveMaxTimeout: IDLE_TIMEOUT_MS,
    maxHeaderSize: MAX_HEADERS_BYTES,
  })
}
