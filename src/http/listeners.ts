/**
 * Listens on an address, on all addresses, or on a Unix socket. If `localhost` is both 127.0.0.1 and ::1, the server listens on
 * both. Fastify would create a second server for the second address, without the limits and timeouts of the first. Here, the
 * first server gets the connections of both addresses.
 */
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { chmod, lstat, unlink } from 'node:fs/promises'
import { connect, createServer, Server } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'

const SEVERAL_ADDRESSES = 'localhost'
/** Before the listener closes, it waits for a short turn of the event loop, for at most this many turns. */
const TURNS = 100
const SHORT_TURN_MS = 0.2

export interface ListenOptions {
  /** A name, an address (IPv6 with or without brackets), or `unix:/path`. */
  readonly host: string
  /** 0 for any free port. Ignored for a Unix socket. */
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
   * Resolves with the URL of the first address, or `unix:/path`. Rejects if the server cannot listen there. If it cannot listen
   * on the second address of `localhost`, that address is skipped.
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
    // The file exists only after the server has started to listen.
    await chmod(path, MODE)
    this.#socketPath = path
    return `unix:${path}`
  }

  async #listenToo(host: string, port: number): Promise<void> {
    // The same options as Node's HTTP server uses.
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    server.on('connection', (socket) => this.#app.server.emit('connection', socket))
    server.listen({ host, port })
    try {
      await once(server, 'listening')
      this.#others.push(server)
    } catch {
      // The name may resolve to an address that this machine does not have.
    }
  }

  /**
   * Stops accepting connections; requests on open ones are still answered. When the listener closes, the system resets
   * connections that this process has not accepted yet. Two measures avoid this: the file of a Unix socket is removed first, so
   * that nobody connects any more; and the listener closes after a short turn of the event loop, in which little was left to
   * accept.
   */
  async stopAccepting(): Promise<void> {
    if (this.#socketPath !== null) await unlink(this.#socketPath).catch(() => {})
    for (let turn = 0; turn < TURNS; turn++) {
      const startMs = performance.now()
      await setImmediate()
      if (performance.now() - startMs < SHORT_TURN_MS) break
    }
    // The `close` of the HTTP server would also end idle connections, on which a request may be about to arrive.
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

/** Removes the brackets of an IPv6 address in a URL: `[::1]` means `::1`. */
function withoutBrackets(host: string): string {
  return /^\[(.*)\]$/.exec(host)?.[1] ?? host
}

/**
 * Replaces the address `::`, which stands for all addresses, by the loopback address, so that clients on this machine can use
 * the URL.
 */
function usable(url: string): string {
  return url.replace('//[::]:', '//[::1]:')
}

/** With `HOST=unix:/path`, the server listens on a Unix socket, for a reverse proxy on the same machine. */
const PREFIX = 'unix:'
/** The file mode: the owner and the group may connect, so the proxy's user must be in the server's group. */
const MODE = 0o660

/** Returns the path of `unix:/path`; null for an address or a name. */
function socketPathOf(host: string): string | null {
  return host.startsWith(PREFIX) ? host.slice(PREFIX.length) : null
}

/**
 * Removes the socket file of a server that was killed. Rejects with code EADDRINUSE if another process listens on the socket,
 * or if the file is not a socket.
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
