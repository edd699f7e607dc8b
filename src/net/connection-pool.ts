/**
 * Keeps idle connections for the next callback to the same origin. The address of a connection was checked when it was opened,
 * and cannot change afterwards.
 *
 * Each connection is an undici `Client`. Undici's `Pool` and `Agent` are not used, because they neither limit idle connections
 * nor open a new one for a retry (docs/internals/decisions.md).
 */
import type { Socket } from 'node:net'
import { Client } from 'undici'
import type { Clock } from '../clock.ts'

/**
 * If there are more than `total` idle connections, the pool closes a connection of the origin whose last release was longest
 * ago.
 */
export interface IdleLimits {
  readonly total: number
  readonly perOrigin: number
}

/** An idle connection is closed after this time, or earlier if the receiver announces a shorter time. */
const IDLE_TIMEOUT_MS = 4000

/**
 * A connection is not used again at this age, even if it was never idle, because the receiver may move to a different address
 * in DNS.
 */
export const MAX_CONNECTION_AGE_MS = 60_000

/** A receiver's response headers may have this size, as in Node's own server. */
const MAX_HEADERS_BYTES = 16_384

/** One callback at a time uses an HTTP/1.1 connection. A closed connection is never opened again. */
export interface Connection {
  readonly origin: string
  readonly client: Client
  readonly socket: Socket
  readonly openedAtMs: number
}

/** A request fails with this code if its connection was closed before Parley sent the request. */
export const CONNECTION_CLOSED = 'PARLEY_CONNECTION_CLOSED'

/** Closes a connection at once, even during a request. */
export async function closeConnection(connection: Connection, reason: Error | null = null): Promise<void> {
  const closed = connection.client.destroy(reason)
  // A client does not close its socket before the first request.
  connection.socket.destroy()
  await closed
}

export interface ConnectionPool {
  /** Creates a connection from a connected socket, for immediate use. The pool does not contain it yet. */
  open(origin: string, socket: Socket): Connection
  /** Removes an idle connection to this origin from the pool and returns it; null if there is none. */
  acquire(origin: string): Connection | null
  /**
   * Adds the connection to the pool. Closes it instead if it cannot be used again, if the pool has enough for its origin, or if
   * the pool is closed.
   */
  release(connection: Connection): void
  /** Closes all idle connections, and from now on every released connection. */
  close(): Promise<void>
}

export function createConnectionPool(clock: Clock, limits: IdleLimits): ConnectionPool {
  /** The origin whose last release was longest ago comes first. */
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
        // The receiver is least likely to close the most recently used connection now.
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

/** The client has no timeouts for requests, because the deadline of a POST covers all steps. */
function createClient(origin: string, socket: Socket): Client {
  let connected = false
  return new Client(origin, {
    // A client whose connector calls back synchronously never sends its request, so the callback runs in a microtask.
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
