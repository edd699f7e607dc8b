/**
 * Listens on an address, on all addresses, or on a Unix socket. Fastify would create a second server for the second address of
 * `localhost`, without the limits and timeouts of the first. Here, one server gets the connections of both.
 */
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { chmod, lstat, unlink } from 'node:fs/promises'
import { connect, createServer, Server } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'

const SEVERAL_ADDRESSES = 'localhost'
/** Before the listener closes, it waits for a short turn of the event loop, but for at most this many turns. */
const TURNS = 100
const SHORT_TURN_MS = 0.2

export interface ListenOptions {
  /** `host` is a name, an address (IPv6 with or without brackets), or `unix:/path`. */
  readonly host: string
  /** With 0, the system chooses a free port. A Unix socket has none. */
  readonly port: number
  /** Returns the addresses of `localhost`. Tests replace this function. */
  readonly addresses?: () => Promise<readonly string[]>
}

export class Listeners {
  readonly #app: FastifyInstance
  readonly #others: Server[] = []
  #socketPath: string | null = null

  constructor(app: FastifyInstance) {
    this.#app = app
  }

  /** Resolves with the URL of the first address, or `unix:/path`. Skips a second address of `localhost` that cannot be used. */
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
    // The file does not exist before the server listens.
    await chmod(path, MODE)
    this.#socketPath = path
    return `unix:${path}`
  }

  async #listenToo(host: string, port: number): Promise<void> {
    // Node's HTTP server uses the same options for its connections.
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    server.on('connection', (socket) => this.#app.server.emit('connection', socket))
    server.listen({ host, port })
    try {
      await once(server, 'listening')
      this.#others.push(server)
    } catch {
      // `localhost` may resolve to an address that this machine does not have.
    }
  }

  /**
   * Open connections continue. When a listener closes, the system resets the connections that it has not accepted. Two measures
   * avoid that: clients no longer find the file of a Unix socket, and the listener closes after a short turn of the event loop,
   * when few connections are waiting.
   */
  async stopAccepting(): Promise<void> {
    if (this.#socketPath !== null) await unlink(this.#socketPath).catch(() => {})
    for (let turn = 0; turn < TURNS; turn++) {
      const startMs = performance.now()
      await setImmediate()
      if (performance.now() - startMs < SHORT_TURN_MS) break
    }
    // `close` of the HTTP server would also end idle connections, on which a request may be arriving.
    for (const server of [this.#app.server, ...this.#others]) Server.prototype.close.call(server)
  }

  /** Stops accepting connections. Resolves when all open connections have ended. */
  async close(): Promise<void> {
    const others = this.#others.map((server) => new Promise((resolve) => server.close(resolve)))
    await Promise.all([this.#app.close(), ...others])
  }
}

async function addressesOfLocalhost(): Promise<string[]> {
  const found = await lookup(SEVERAL_ADDRESSES, { all: true })
  return [...new Set(found.map(({ address }) => address))]
}

/** `[::1]` in a URL means `::1`. */
function withoutBrackets(host: string): string {
  return /^\[(.*)\]$/.exec(host)?.[1] ?? host
}

/** `::` stands for all addresses. Clients on this machine cannot use it in a URL, but can use the loopback address. */
function usable(url: string): string {
  return url.replace('//[::]:', '//[::1]:')
}

/** With `HOST=unix:/path`, a reverse proxy on the same machine connects to a Unix socket. */
const PREFIX = 'unix:'
/** The owner and the group may connect, so the user of the proxy must be in the server's group. */
const MODE = 0o660

/** Returns null for an address or a name. */
function socketPathOf(host: string): string | null {
  return host.startsWith(PREFIX) ? host.slice(PREFIX.length) : null
}

/** A killed server leaves its socket file. Rejects with EADDRINUSE if a process listens on it, or if it is not a socket. */
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

async function isListenedOn(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return false
    // The connection queue of the socket is full, so a process is listening.
    if (code === 'EAGAIN') return true
    throw error
  } finally {
    socket.destroy()
  }
}

function inUse(message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code: 'EADDRINUSE' })
}
