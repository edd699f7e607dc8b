/**
 * Where the server listens: on an address, on all of them, or on a Unix socket. If `localhost` stands for 127.0.0.1 and ::1, the
 * server listens on both. Fastify would create a separate server for the second address, without the guards of the first. Here
 * its connections go to the one server, so that limits, timeouts and shutdown apply to them, too.
 */
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { chmod, lstat, unlink } from 'node:fs/promises'
import { connect, createServer, Server } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'

const SEVERAL_ADDRESSES = 'localhost'
/** The listener looks for a short turn of the event loop in at most this many turns before it closes. */
const TURNS = 100
const SHORT_TURN_MS = 0.2

export interface ListenOptions {
  /** A name, an address (IPv6 with or without brackets), or `unix:/path`. */
  readonly host: string
  /** 0 for a free one; not used for a Unix socket. */
  readonly port: number
  /** Resolves with the addresses of `localhost`; replaced in tests. */
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
    // Node's HTTP server uses the same options for its sockets.
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    server.on('connection', (socket) => this.#app.server.emit('connection', socket))
    server.listen({ host, port })
    try {
      await once(server, 'listening')
      this.#others.push(server)
    } catch {
      // A machine may resolve the name to an address that it does not have.
    }
  }

  /**
   * Accepts no further connections; requests on open ones are still answered. When the listener closes, connections that the
   * system has accepted but this process has not are reset. So the file of a Unix socket is removed first, and the listener
   * closes right after a short turn of the event loop, when the process has accepted everything that had arrived.
   */
  async stopAccepting(): Promise<void> {
    if (this.#socketPath !== null) await unlink(this.#socketPath).catch(() => {})
    for (let turn = 0; turn < TURNS; turn++) {
      const startMs = performance.now()
      await setImmediate()
      if (performance.now() - startMs < SHORT_TURN_MS) break
    }
    // The HTTP server's own `close` would also end connections on which a request may be on its way.
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

/** Removes the brackets of an IPv6 address in a URL: `[::1]` means `::1`. */
function withoutBrackets(host: string): string {
  return /^\[(.*)\]$/.exec(host)?.[1] ?? host
}

/** Replaces the wildcard address by the loopback address, at which clients can reach the server. */
function usable(url: string): string {
  return url.replace('//[::]:', '//[::1]:')
}

/** `HOST=unix:/path` makes the server listen on a Unix socket, for a reverse proxy on the same machine. */
const PREFIX = 'unix:'
/** Lets the owner and the group connect: add the proxy's user to the server's group. */
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
    // The server's queue of connections is full, so a server is listening.
    if (code === 'EAGAIN') return true
    throw error
  } finally {
    socket.destroy()
  }
}

function inUse(message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code: 'EADDRINUSE' })
}
