/**
 * A receiver of callbacks for tests: a real HTTP server on loopback that records its requests and answers as a script
 * says, correctly or not.
 *
 *     const receiver = await startReceiver({}, t)
 *     receiver.script({ kind: 'answer', status: 503 }, { kind: 'stall' }) // then 200 for all further requests
 *     // … let callbacks go to receiver.url …
 *     const [first] = await receiver.received(2)                          // without sleeping
 *     receiver.release()                                                  // and the stalled one is answered
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { TlsOptions } from 'node:tls'
import type { Lifetime } from './parley.ts'

export interface ReceivedRequest {
  readonly method: string
  /** Path and query, as received. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, spelled and ordered as received. */
  readonly rawHeaders: readonly string[]
  readonly body: string
  /** When the whole request had arrived, in milliseconds since 1970. */
  readonly atMs: number
  /** The number of the connection, from 1. */
  readonly connection: number
}

/** What the receiver does with one request. */
export type ReceiverReply =
  | {
      readonly kind: 'answer'
      /** Defaults to 200. */
      readonly status?: number
      readonly headers?: { readonly [name: string]: string }
      readonly body?: string | Uint8Array
    }
  /** Responds only after `release()`, with 200. With `afterHeaders`, status and headers are sent at once, and the body is held. */
  | { readonly kind: 'stall'; readonly afterHeaders?: boolean }
  /** Resets the connection before the response, or ends it in the middle of a 200's body. */
  | { readonly kind: 'reset'; readonly when: 'before' | 'middle' }
  /** A 200 whose body is sent byte by byte and never ends. */
  | { readonly kind: 'drip'; readonly everyMs: number }
  /** A 200 with a body of this many bytes. */
  | { readonly kind: 'huge'; readonly bytes: number }
  /** Sends these bytes instead of a response, then closes the connection. */
  | { readonly kind: 'raw'; readonly text: string }

export interface ReceiverOptions {
  /** Chooses the response after the script has ended; a plain 200 by default. */
  readonly reply?: (request: ReceivedRequest) => ReceiverReply
  /** Called once for each response that the sender cannot have read: the sender had gone, or the response was never sent. */
  readonly onUnread?: (request: ReceivedRequest) => void
  /** The address to listen on: 127.0.0.1 if absent. */
  readonly host?: string
  /** The port to listen on, for a receiver that comes back at the same address; any free port if absent. */
  readonly port?: number
  /** Key and certificate in PEM, to use TLS. */
  readonly tls?: Pick<TlsOptions, 'key' | 'cert' | 'SNICallback'>
}

export interface Receiver {
  /** `http://127.0.0.1:PORT`, without a trailing slash. */
  readonly url: string
  readonly port: number
  /** All requests so far, in the order in which they arrived completely. */
  readonly requests: readonly ReceivedRequest[]
  /** Connections accepted so far. */
  connections(): number
  /** Connections open now. */
  open(): number
  /** Resolves when no connection is open. */
  allClosed(): Promise<void>
  /** Appends to the script: one reply for each following request. */
  script(...replies: readonly ReceiverReply[]): void
  /** Resolves with all requests as soon as there are at least `count`. */
  received(count: number): Promise<readonly ReceivedRequest[]>
  /** Releases all requests that are stalled now. */
  release(): void
  /** Closes all connections, whatever they are doing, and stops listening. */
  close(): Promise<void>
}

const OK: ReceiverReply = { kind: 'answer' }
const CHUNK = Buffer.alloc(65_536, 'x')

/** @param t when it ends, the receiver is closed */
export async function startReceiver(options: ReceiverOptions = {}, t?: Lifetime): Promise<Receiver> {
  const { host = '127.0.0.1', onUnread } = options
  const requests: ReceivedRequest[] = []
  const replies: ReceiverReply[] = []
  const sockets = new Set<Socket>()
  const stalled = new Set<ServerResponse>()
  const { changed, when } = watch()
  /** Connections by remote port, which a connection shares with its TLS layer. */
  const numbers = new Map<number | undefined, number>()
  const watchUntilRead = answerWatch()
  let connections = 0

  const server = options.tls === undefined ? createServer() : createTlsServer(options.tls)
  server.keepAliveTimeout = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket)
    numbers.set(socket.remotePort, connections)
    // Some tests use clients that disconnect in the middle.
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
      if (onUnread) watchUntilRead(response, () => onUnread(request))
      perform(replies.shift() ?? options.reply?.(request) ?? OK, response, stalled)
      changed()
    })
  })

  const listening = Promise.withResolvers<void>()
  server.once('error', listening.reject)
  server.listen(options.port ?? 0, host, listening.resolve)
  await listening.promise
  const { port } = server.address() as AddressInfo

  const receiver: Receiver = {
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
  t?.after(() => receiver.close())
  return receiver
}

/** Lets tests wait for a condition: call `changed` whenever a condition may have become true. */
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

/**
 * Finds responses that cannot have been read. A response was read if another request follows on the connection, or if the
 * connection ends in order. The system resets a connection whose other side is gone: if that was before the response, the next
 * write fails; if it was after an unread response, reading fails. If neither is certain, it counts as read.
 */
function answerWatch(): (response: ServerResponse, onUnread: () => void) => void {
  const last = new WeakMap<Socket, () => void>()
  return (response, onUnread) => {
    const { socket } = response
    if (socket === null) return onUnread()
    last.get(socket)?.()
    const settle = (unread: boolean) => {
      if (last.get(socket) !== read) return
      socket.off('error', lost).off('end', probe)
      last.delete(socket)
      if (unread) onUnread()
    }
    const read = () => settle(false)
    const lost = () => settle(true)
    // Nothing more can be written once this side has ended the connection.
    const probe = () => (socket.writable ? socket.write('\n', (error) => settle(Boolean(error))) : read())
    socket.once('error', lost).prependOnceListener('end', probe)
    response.once('close', () => {
      if (!response.writableFinished) lost()
    })
    last.set(socket, read)
  }
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

/** Writes as fast as the other side reads, until the connection closes. */
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
