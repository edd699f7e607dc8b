/**
 * Where the server listens: on an address, on all of them, or on a Unix socket. `localhost` may stand for 127.0.0.1 and ::1,
 * and both are listened on. Fastify would create a separate server for the second address, without the guards of the first.
 * Here its connections are handed to the one server, so that limits, timeouts and shutdown apply to them, too.
 */
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { openSocketToGroup, removeStaleSocket, socketPathOf } from './unix-socket.ts'

const SEVERAL_ADDRESSES = 'localhost'

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
