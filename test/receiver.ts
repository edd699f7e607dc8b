/**
 * A receiver of callbacks for tests: a real HTTP server on loopback that records what it gets and answers as a script
 * says, well or badly.
 *
 *     const receiver = await startReceiver()
 *     t.after(() => receiver.close())
 *     receiver.script({ kind: 'answer', status: 503 }, { kind: 'stall' }) // then 200 for all further requests
 *     // … let callbacks go to receiver.url …
 *     const [first] = await receiver.received(2)                          // without sleeping
 *     receiver.release()                                                  // and the stalled one is answered
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { TlsOptions } from 'node:tls'

export interface ReceivedRequest {
  readonly method: string
  /** Path and query, as they came. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, spelled and ordered as they came. */
  readonly rawHeaders: readonly string[]
  readonly body: string
  /** When it had come in full, in milliseconds since 1970. */
  readonly atMs: number
  /** Which connection it came on, counted from 1. */
  readonly connection: number
}

/** What the receiver does with one request. */
export type ReceiverReply =
  | {
      readonly kind: 'answer'
      /** 200 if absent. */
      readonly status?: number
      readonly headers?: { readonly [name: string]: string }
      readonly body?: string | Uint8Array
    }
  /** No answer until `release()`, then 200. With `afterHeaders`, status and headers come at once and the body does not. */
  | { readonly kind: 'stall'; readonly afterHeaders?: boolean }
  /** Resets the connection before an answer, or ends it in the middle of the body of a 200. */
  | { readonly kind: 'reset'; readonly when: 'before' | 'middle' }
  /** A 200 whose body comes byte by byte, and has no end. */
  | { readonly kind: 'drip'; readonly everyMs: number }
  /** A 200 with a body of that many bytes. */
  | { readonly kind: 'huge'; readonly bytes: number }
  /** These bytes instead of an answer, then the end. */
  | { readonly kind: 'raw'; readonly text: string }

export interface ReceiverOptions {
  /** What is answered when the script is at its end: a plain 200 if absent. */
  readonly reply?: (request: ReceivedRequest) => ReceiverReply
  /** The address to listen on: 127.0.0.1 if absent. */
  readonly host?: string
  /** The port to listen on, for one that comes back where it was: any that is free if absent. */
  readonly port?: number
  /** Key and certificate in PEM, to speak TLS. */
  readonly tls?: Pick<TlsOptions, 'key' | 'cert' | 'SNICallback'>
}

export interface Receiver {
  /** `http://127.0.0.1:PORT`, without a slash at its end. */
  readonly url: string
  readonly port: number
  /** All requests so far, in the order in which they had come in full. */
  readonly requests: readonly ReceivedRequest[]
  /** Connections accepted so far. */
  connections(): number
  /** Connections open now. */
  open(): number
  /** Resolves when no connection is open. */
  allClosed(): Promise<void>
  /** Appends to the script: one reply for each request to come. */
  script(...replies: readonly ReceiverReply[]): void
  /** Resolves with all requests as soon as there are at least `count`. */
  received(count: number): Promise<readonly ReceivedRequest[]>
  /** Ends all stalls so far. */
  release(): void
  /** Ends all connections, whatever they are doing, and stops to listen. */
  close(): Promise<void>
}

const OK: ReceiverReply = { kind: 'answer' }
const CHUNK = Buffer.alloc(65_536, 'x')

export async function startReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  const host = options.host ?? '127.0.0.1'
  const requests: ReceivedRequest[] = []
  const replies: ReceiverReply[] = []
  const sockets = new Set<Socket>()
  const stalled = new Set<ServerResponse>()
  const { changed, when } = watch()
  /** By the remote port, which a connection and the TLS upon it have in common. */
  const numbers = new Map<number | undefined, number>()
  let connections = 0

  const server = options.tls === undefined ? createServer() : createTlsServer(options.tls)
  server.keepAliveTimeout = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket)
    numbers.set(socket.remotePort, connections)
    // A client that goes away in the middle is what some tests are about.
    socket.on('error', () => {})
    socket.once('close', () => {
      sockets.delete(socket)
      changed()
    })
    changed()
  })
  server.on('request', (message, response) => {
    response.on('error', () => {})
    readRequest(message, numbers.get(message.socket.remotePort) ?? 0, (request) => {
      requests.push(request)
      perform(replies.shift() ?? options.reply?.(request) ?? OK, response, stalled)
      changed()
    })
  })

  const listening = Promise.withResolvers<void>()
  server.once('error', listening.reject)
  server.listen(options.port ?? 0, host, listening.resolve)
  await listening.promise
  const { port } = server.address() as AddressInfo

  return {
    url: `${options.tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    requests,
    connections: () => connections,
    open: () => sockets.size,
    allClosed: () => when(() => sockets.size === 0),
    script: (...more) => void replies.push(...more),
    received: async (count) => {
      await when(() => requests.length >= count)
      return requests
    },
    release() {
      for (const response of stalled) response.end()
      stalled.clear()
    },
    async close() {
      const closed = Promise.withResolvers<void>()
      server.close(() => closed.resolve())
      for (const socket of sockets) socket.destroy()
      await closed.promise
    },
  }
}

/** Lets tests wait for a condition: `changed` is to be called whenever one may have begun to hold. */
function watch(): { changed(): void; when(holds: () => boolean): Promise<void> } {
  const watchers = new Set<() => void>()
  return {
    changed() {
      for (const watcher of watchers) watcher()
    },
    when(holds) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const watcher = () => {
        if (!holds()) return
        watchers.delete(watcher)
        resolve()
      }
      watchers.add(watcher)
      watcher()
      return promise
    },
  }
}

function readRequest(
  message: IncomingMessage,
  connection: number,
  done: (request: ReceivedRequest) => void,
): void {
  const chunks: Buffer[] = []
  message.on('error', () => {})
  message.on('data', (chunk: Buffer) => chunks.push(chunk))
  message.on('end', () => {
    done({
      method: message.method ?? '',
      path: message.url ?? '',
      headers: message.headers,
      rawHeaders: message.rawHeaders,
      body: Buffer.concat(chunks).toString(),
      atMs: Date.now(),
      connection,
    })
  })
}

function perform(reply: ReceiverReply, response: ServerResponse, stalled: Set<ServerResponse>): void {
  switch (reply.kind) {
    case 'answer':
      response.writeHead(reply.status ?? 200, { ...reply.headers })
      response.end(reply.body)
      return
    case 'stall':
      stalled.add(response)
      if (reply.afterHeaders === true) response.writeHead(200).flushHeaders()
      return
    case 'reset':
      if (reply.when === 'before') response.socket?.resetAndDestroy()
      else response.writeHead(200).write('the beginning', () => response.socket?.destroy())
      return
    case 'drip': {
      const timer = setInterval(() => response.write('.'), reply.everyMs)
      response.writeHead(200).once('close', () => clearInterval(timer))
      return
    }
    case 'huge':
      response.writeHead(200, { 'content-length': String(reply.bytes) })
      pour(response, reply.bytes)
      return
    case 'raw':
      response.socket?.end(reply.text)
  }
}

/** Writes as fast as the other side reads, and no further than it stays. */
function pour(response: ServerResponse, bytes: number): void {
  let left = bytes
  const more = () => {
    while (left > 0 && !response.destroyed) {
      const chunk = left < CHUNK.length ? CHUNK.subarray(0, left) : CHUNK
      left -= chunk.length
      if (!response.write(chunk)) {
        response.once('drain', more)
        return
      }
    }
    response.end()
  }
  more()
}
