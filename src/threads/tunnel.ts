/**
 * One end of a tunnel: a stream between two threads over a message port, which an HTTP server and an HTTP client take for a connection.
 * At most one piece is on its way in each direction: the other end asks for the next once it has taken the last.
 */
import { Duplex } from 'node:stream'
import type { MessagePort } from 'node:worker_threads'

type TunnelMessage = Uint8Array<ArrayBuffer> | 'taken' | 'end'

export class Tunnel extends Duplex {
  /** As of a socket: where the client is. Undefined if that has no address. */
  readonly remoteAddress: string | undefined
  readonly #port: MessagePort
  #onTaken: ((error?: Error | null) => void) | null = null
  #owesTaken = false
  #hasEnded = false

  constructor(port: MessagePort, address: string | null) {
    super({ allowHalfOpen: true })
    this.#port = port
    this.remoteAddress = address ?? undefined
    port.on('message', (message: TunnelMessage) => this.#received(message))
    port.once('close', () => {
      // What arrived before the end is still to be read.
      if (!this.#hasEnded) this.destroy()
    })
  }

  override _write(piece: Buffer, _encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    // A copy of its own: a message would carry all of the memory behind a view.
    const bytes = new Uint8Array(piece)
    this.#onTaken = callback
    this.#port.postMessage(bytes, [bytes.buffer])
  }

  override _final(callback: (error?: Error | null) => void): void {
    this.#port.postMessage('end')
    callback()
  }

  override _read(): void {
    if (!this.#owesTaken) return
    this.#owesTaken = false
    this.#port.postMessage('taken')
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#port.close()
    callback(error)
  }

  /** For an HTTP client, which sets these of each connection. The connections of clients have timeouts of their own. */
  setTimeout(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  setNoDelay(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  #received(message: TunnelMessage): void {
    if (message === 'end') {
      this.#hasEnded = true
      this.push(null)
    } else if (message === 'taken') {
      const callback = this.#onTaken
      this.#onTaken = null
      callback?.()
    } else {
      this.#owesTaken = true
      if (this.push(Buffer.from(message.buffer))) this._read()
    }
  }
}
