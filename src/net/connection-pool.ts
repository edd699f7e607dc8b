/**
 * Connections that wait for the next callback to the same origin. Their address was checked when they were opened, and
 * a live connection cannot change it. Numbers and ages are bounded, so that many origins cost no more than few.
 */
import type { Socket } from 'node:net'
import { Client } from 'undici'
import type { Clock } from '../clock.ts'

export interface ConnectionPoolLimits {
  /** Waiting connections in all, hence also the most origins that have one; the origin unused for longest loses its own. */
  readonly total: number
  readonly perOrigin: number
}

/** How long a connection waits; a receiver that announces less gets less. */
export const KEPT_IDLE_MS = 4000

/** A connection that is busy again and again still ends, so that a receiver that moves in DNS is followed. */
export const KEPT_AGE_MS = 60_000

/** The most that a receiver's headers may take, as in Node's own server. */
const MAX_ANSWER_HEADERS_BYTES = 16_384

/** One HTTP/1.1 connection. It is used by one callback at a time, and is never opened again when it has ended. */
export interface Connection {
  readonly origin: string
  readonly client: Client
  readonly socket: Socket
  readonly openedAtMs: number
}

/** The error of a request on a connection that had ended before it was sent. */
export const GONE = 'PARLEY_CONNECTION_GONE'

/** Ends a connection, whatever it is doing: nothing of it stays. */
export async function endConnection(connection: Connection, reason: Error | null = null): Promise<void> {
  const ended = connection.client.destroy(reason)
  // A client takes its socket with its first request; one whose first request could not be sent never does.
  connection.socket.destroy()
  await ended
}

export interface ConnectionPool {
  /** Puts HTTP/1.1 upon a connected socket, for a first use at once. */
  open(origin: string, socket: Socket): Connection
  /** A connection to this origin that is still open, now the caller's; null if there is none. */
  take(origin: string): Connection | null
  /** Keeps an unused connection, or ends it. */
  give(connection: Connection): void
  /** Ends all of them; whatever is given later ends at once. */
  close(): Promise<void>
}

export function createConnectionPool(clock: Clock, limits: ConnectionPoolLimits): ConnectionPool {
  /** By origin; the origin given to longest ago comes first. */
  const byOrigin = new Map<string, Connection[]>()
  let count = 0
  let closed = false

  function remove(connection: Connection): void {
    const kept = byOrigin.get(connection.origin) ?? []
    const index = kept.indexOf(connection)
    if (index === -1) return
    kept.splice(index, 1)
    count -= 1
    if (kept.length === 0) byOrigin.delete(connection.origin)
  }

  function drop(connection: Connection): void {
    remove(connection)
    void endConnection(connection)
  }

  function open(origin: string, socket: Socket): Connection {
    const client = createClient(origin, socket)
    const connection = { origin, client, socket, openedAtMs: clock.steadyMs() }
    connection.client.once('disconnect', () => drop(connection))
    return connection
  }

  function usable(connection: Connection): boolean {
    return connection.client.stats.connected && clock.steadyMs() - connection.openedAtMs < KEPT_AGE_MS
  }

  return {
    open,

    take(origin) {
      for (;;) {
        // The one used last is the one least likely to be closed by the other side in this moment.
        const connection = byOrigin.get(origin)?.at(-1)
        if (connection === undefined) return null
        remove(connection)
        if (usable(connection)) return connection
        void endConnection(connection)
      }
    },

    give(connection) {
      const kept = byOrigin.get(connection.origin) ?? []
      if (closed || !usable(connection) || kept.length >= limits.perOrigin) {
        void endConnection(connection)
        return
      }
      kept.push(connection)
      byOrigin.delete(connection.origin)
      byOrigin.set(connection.origin, kept)
      count += 1
      const oldest = byOrigin.values().next().value?.[0]
      if (count > limits.total && oldest !== undefined) drop(oldest)
    },

    async close() {
      closed = true
      const all = [...byOrigin.values()].flat()
      byOrigin.clear()
      count = 0
      await Promise.all(all.map((connection) => endConnection(connection)))
    },
  }
}

/** Deadlines are the caller's: undici's own are off. */
function createClient(origin: string, socket: Socket): Client {
  let handedOver = false
  return new Client(origin, {
    // Not at once: a client that is answered within its own question never sends its request.
    connect: (_options, callback) =>
      queueMicrotask(() => {
        if (handedOver || socket.destroyed) {
          callback(Object.assign(new Error('the connection has ended'), { code: GONE }), null)
          return
        }
        handedOver = true
        callback(null, socket)
      }),
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: KEPT_IDLE_MS,
    keepAliveMaxTimeout: KEPT_IDLE_MS,
    maxHeaderSize: MAX_ANSWER_HEADERS_BYTES,
  })
}
