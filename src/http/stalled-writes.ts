/**
 * Closes connections whose clients do not read, because their responses stay in memory. A connection has stalled if bytes are
 * waiting to be written and the operating system has taken none of them for the whole time limit.
 */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.ts'

/**
 * How many times connections are checked within the time limit. So a stalled connection is closed at most a quarter of the
 * limit late.
 */
const CHECKS = 4

export interface StalledWritesOptions {
  readonly clock: Clock
  readonly limitMs: number
  /** Called when a connection was closed. */
  readonly onClosed: (address: string | null) => void
}

interface Progress {
  /** How many bytes the operating system has taken; null if none are waiting to be written. */
  written: number | null
  sinceMs: number
}

export class StalledWrites {
  readonly #options: StalledWritesOptions
  readonly #connections = new Map<Socket, Progress>()
  #cancelCheck: (() => void) | null = null

  constructor(options: StalledWritesOptions) {
    this.#options = options
  }

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      this.#connections.set(socket, { written: null, sinceMs: 0 })
      socket.once('close', () => this.#connections.delete(socket))
      this.#checkLater()
    })
  }

  /** No timer runs while there are no connections. */
  #checkLater(): void {
    if (this.#cancelCheck !== null || this.#connections.size === 0) return
    const { clock, limitMs } = this.#options
    this.#cancelCheck = clock.after(limitMs / CHECKS, () => {
      this.#cancelCheck = null
      this.#check()
      this.#checkLater()
    })
  }

  #check(): void {
    const { clock, limitMs, onClosed } = this.#options
    const nowMs = clock.steadyMs()
    for (const [socket, progress] of this.#connections) {
      const written = socket.writableLength === 0 ? null : socket.bytesWritten - socket.writableLength
      if (written === null || written !== progress.written) {
        progress.written = written
        progress.sinceMs = nowMs
      } else if (nowMs - progress.sinceMs >= limitMs) {
        const address = socket.remoteAddress ?? null
        this.#connections.delete(socket)
        // An orderly close would wait for the client to read the rest. A Unix socket cannot be reset.
        if (address === null) socket.destroy()
        else socket.resetAndDestroy()
        onClosed(address)
      }
    }
  }
}
