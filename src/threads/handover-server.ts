/** Listens for connections and hands them on before anything of them is read. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { ListeningServer } from '../http/listeners.ts'

export interface HandoverOptions {
  readonly onConnection: (socket: Socket) => void
  /** Called when no connection follows; resolves when those that were handed on are closed. */
  readonly drain: () => Promise<void>
}

export class HandoverServer implements ListeningServer {
  readonly pausesConnections = true
  readonly server: Server
  readonly #drain: () => Promise<void>

  constructor({ onConnection, drain }: HandoverOptions) {
    // As Node's HTTP server configures its sockets.
    this.server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true })
    this.server.on('connection', onConnection)
    this.#drain = drain
  }

  async listen(place: Parameters<ListeningServer['listen']>[0]): Promise<string> {
    this.server.listen(place)
    await once(this.server, 'listening')
    const address = this.server.address()
    return address === null || typeof address === 'string' ? `unix:${address}` : urlOf(address)
  }

  async close(): Promise<void> {
    this.server.close()
    await this.#drain()
  }
}

/** A server on all addresses is reached at the loopback address. */
function urlOf({ address, family, port }: AddressInfo): string {
  const host = address === '0.0.0.0' ? '127.0.0.1' : address
  return `http://${family === 'IPv6' ? `[${host}]` : host}:${port}`
}
