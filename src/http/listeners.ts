/**
 * Where the server listens: on an address, on all of them, or on a Unix socket. `localhost` may stand for 127.0.0.1 and ::1,
 * and both are listened on. Fastify would create a separate server for the second address, without the guards of the first.
 * Here its connections are handed to the one server, so that limits, timeouts and shutdown apply to them, too.
 */
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { chmod, lstat, unlink } from 'node:fs/promises'
import { connect, createServer, Server } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'

const SEVERAL_ADDRESSES = 'localhost'
/** How many turns of the event loop the listener waits for a short one before it closes. */
const TURNS = 100
const SHORT_TURN_MS = 0.2

export interface ListenOptions {
  /** A name, an address (IPv6 with or without brackets), or `unix:/path`. */
  readonly host: string
  /** 0 for a free one; not used for a Unix socket. */
  readonly port: number
  /** The addresses of `localhost`; replaced in tests. */
  readonly addresses?: () => Promise<readonly string[]>
}

export class Listeners {
  readonly #app: FastifyInstance
  readonly #others: Server[] = []
  #socketPath: string | null = null

  constructor(app: FastifyInstance) {
    this.#app = app
  }

  /**
   * Resolves with the URL of the first address, or `unix:/path`. Rejects if the server cannot listen on that; other addresses
   * that fail are skipped.
   */
  async listen({ host, port, addresses = addressesOfLocalhost }: ListenOptions): Promise<string> {
    const app = this.#app
    const path = socketPathOf(host)
    if (path !== null) return this.#listenOnSocket(path)
    if (host !== SEVERAL_ADDRESSES) return usable(await app.listen({ host: withoutBrackets(host), port }))
    const [first = '127.0.0.1', ...others] = await addresses()
    const url = await app.listen({ host: first, port })
    const address = app.server.address()
    if (address === null || typeof address === 'string') return url
    for (const other of others) await this.#listenToo(other, address.port)
    return url
  }

  async #listenOnSocket(path: string): Promise<string> {
    await removeStaleSocket(path)
    await this.#app.listen({ path })
    await openSocketToGroup(path)
    this.#socketPath = path
    return `unix:${path}`
  }

  async #listenToo(host: string, port: number): Promise<void> {
    // The same options as Node's HTTP server uses for its sockets.
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    server.on('connection', (socket) => this.#app.server.emit('connection', socket))
    server.listen({ host, port })
    try {
      await once(server, 'listening')
      this.#others.push(server)
    } catch {
      // Not every machine that resolves the name has the address.
    }
  }

  /**
   * Accepts no further connections; requests on open ones are still answered. A connection that the system has accepted but this
   * process has not is reset when the listener closes. So the file of a Unix socket is removed first, and the listener closes right
   * after a short turn of the event loop, which has accepted all that had arrived.
   */
  async stopAccepting(): Promise<void> {
    if (this.#socketPath !== null) await unlink(this.#socketPath).catch(() => {})
    for (let turn = 0; turn < TURNS; turn++) {
      const startMs = performance.now()
      await setImmediate()
      if (performance.now() - startMs < SHORT_TURN_MS) break
    }
    // Not the HTTP server's own `close`, which also ends connections on which a request may be on its way.
    for (const server of [this.#app.server, ...this.#others]) Server.prototype.close.call(server)
  }

  /** Stops accepting connections. Resolves when the open ones have ended. */
  async close(): Promise<void> {
    const others = this.#others.map((server) => new Promise((resolve) => server.close(resolve)))
    await Promise.all([this.#app.close(), ...others])
  }
}

async function addressesOfLocalhost(): Promise<string[]> {
  const found = await lookup(SEVERAL_ADDRESSES, { all: true })
  return [...new Set(found.map(({ address }) => address))]
}

/** `[::1]` as in URLs means `::1`. */
function withoutBrackets(host: string): string {
  return /^\[(.*)\]$/.exec(host)?.[1] ?? host
}

/** A server on all addresses can be reached at the loopback address. */
function usable(url: string): string {
  return url.replace('//[::]:', '//[::1]:')
}

/** Listening on a Unix socket instead of a port (`HOST=unix:/path`), as for a reverse proxy on the same machine. */
const PREFIX = 'unix:'
/** Owner and group may connect: put the proxy's user into the group of the server's. */
const MODE = 0o660

/** The path in `unix:/path`; null for an address or a name. */
function socketPathOf(host: string): string | null {
  return host.startsWith(PREFIX) ? host.slice(PREFIX.length) : null
}

/**
 * Removes a socket file left behind by a killed server. Rejects with code EADDRINUSE if a server listens on it, or if the
 * file is not a socket.
 */
async function removeStaleSocket(path: string): Promise<void> {
  const file = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (file === null) return
  if (!file.isSocket()) throw inUse(`${path} is not a socket`)
  if (await isListenedOn(path)) throw inUse(`another program listens on ${path}`)
  await unlink(path)
}

/** Call this after the server has started to listen. */
async function openSocketToGroup(path: string): Promise<void> {
  await chmod(path, MODE)
}

async function isListenedOn(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return false
    // Its queue of connections is full.
    if (code === 'EAGAIN') return true
    throw error
  } finally {
    socket.destroy()
  }
}

function inUse(message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code: 'EADDRINUSE' })
}
