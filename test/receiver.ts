/**
 * Receives callbacks in tests: a real HTTP server on 127.0.0.1 that records its requests, and responds correctly or wrongly as
 * a script says.
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
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Names and values alternate, in the spelling and order in which they were received. */
  readonly rawHeaders: readonly string[]
  readonly body: string
  /** The time is that of the end of the request, in Unix milliseconds. */
  readonly atMs: number
  readonly connection: number
}

export type ReceiverReply =
  | {
      readonly kind: 'answer'
      /** The default is 200. */
      readonly status?: number
      readonly headers?: { readonly [name: string]: string }
      readonly body?: string | Uint8Array
    }
  /**
   * Responds with 200, but only after `release()`. With `afterHeaders`, the status and headers are sent at once, and only the
   * body is held back.
   */
  | { readonly kind: 'stall'; readonly afterHeaders?: boolean }
  /** Resets the connection before the response, or in the middle of the body of a 200. */
  | { readonly kind: 'reset'; readonly when: 'before' | 'middle' }
  | { readonly kind: 'drip'; readonly everyMs: number }
  | { readonly kind: 'huge'; readonly bytes: number }
  | { readonly kind: 'raw'; readonly text: string }

export interface ReceiverOptions {
  /** Responds to requests after the script's last one. The default is a plain 200. */
  readonly reply?: (request: ReceivedRequest) => ReceiverReply
  /** The receiver calls this once for each response that the sender cannot have read. */
  readonly onUnread?: (request: ReceivedRequest) => void
  /** The default is 127.0.0.1. */
  readonly host?: string
  /** By default, the receiver listens on a free port. A receiver that starts again needs its earlier port. */
  readonly port?: number
  /** Turns TLS on. Key and certificate are in PEM. */
  readonly tls?: Pick<TlsOptions, 'key' | 'cert' | 'SNICallback'>
}

export interface Receiver {
  /** The URL has no trailing slash. */
  readonly url: string
  readonly port: number
  readonly requests: readonly ReceivedRequest[]
  connections(): number
  open(): number
  allClosed(): Promise<void>
  script(...replies: readonly ReceiverReply[]): void
  received(count: number): Promise<readonly ReceivedRequest[]>
  release(): void
  close(): Promise<void>
}

const OK: ReceiverReply = { kind: 'answer' }
const CHUNK = Buffer.alloc(65_536, 'x')

export async function startReceiver(options: ReceiverOptions = {}, t?: Lifetime): Promise<Receiver> {
  const { host = '127.0.0.1', onUnread } = options
  const requests: ReceivedRequest[] = []
  const replies: ReceiverReply[] = []
  const sockets = new Set<Socket>()
  const stalled = new Set<ServerResponse>()
  const { changed, when } = watch()
  /**
   * Maps remote ports to numbers of connections. A TLS connection has two sockets, which have only the remote port in common.
   */
  const numbers = new Map<number | undefined, number>()
  const watchUntilRead = answerWatch()
  let connections = 0

  const server = options.tls === undefined ? createServer() : createTlsServer(options.tls)
  server.keepAliveTimeout = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket)
    numbers.set(socket.remotePort, connections)
    // Some tests use clients that disconnect in the middle of a request.
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

/** Lets tests wait for a condition. `changed` must be called whenever the condition may have become true. */
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
 * Finds responses that cannot have been read.
 *
 * - A response was read if another request follows on its connection, or if the connection ends in order.
 * - The operating system resets a connection whose other side is gone. If the other side was gone before the response, the next
 *   write fails. If it left the response unread, reading fails.
 * - In all other cases, the response counts as read.
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
    // If the receiver itself has ended the connection, it cannot write to find out, so the response counts as read.
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
