/**
 * Sends one request at a time over a keep-alive HTTP/1.1 connection, directly on a socket. The generator shares the machine
 * with what it measures, so it must cost little.
 */
import { connect, type Socket } from 'node:net'

export interface Answer {
  readonly status: number
  /** Both are in lower case. */
  readonly head: string
  readonly body: string
}

const HEAD_END = '\r\n\r\n'

export class Connection {
  readonly #socket: Socket
  #received = ''
  #onAnswer: ((answer: Answer) => void) | null = null
  #onBroken: ((error: Error) => void) | null = null
  #broken: Error | null = null

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1')
    socket.on('data', (text: unknown) => this.#take(String(text)))
    socket.on('error', (error) => this.#break(error))
    socket.on('close', () => this.#break(new Error('the connection was closed')))
  }

  /**
   * @param localAddress an address of the loopback range, for more connections than 127.0.0.1 has ports. The kernel then
   * searches for a port that is free on every address, which takes long when many are in use.
   */
  static open(port: number, localAddress?: string): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({
        port,
        host: '127.0.0.1',
        noDelay: true,
        ...(localAddress !== undefined && { localAddress }),
      })
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.off('error', reject)
        resolve(new Connection(socket))
      })
    })
  }

  /** The next request may be sent only after the answer. Callbacks are used because they are cheaper than a promise. */
  send(bytes: Buffer, onAnswer: (answer: Answer) => void, onBroken: (error: Error) => void): void {
    if (this.#broken) {
      onBroken(this.#broken)
      return
    }
    this.#onAnswer = onAnswer
    this.#onBroken = onBroken
    this.#socket.write(bytes)
  }

  close(): void {
    this.#socket.destroy()
  }

  #break(error: Error): void {
    this.#broken ??= error
    const onBroken = this.#onBroken
    this.#onAnswer = null
    this.#onBroken = null
    onBroken?.(error)
  }

  #take(text: string): void {
    this.#received = this.#received === '' ? text : this.#received + text
    const headEnd = this.#received.indexOf(HEAD_END)
    if (headEnd < 0) return
    const head = this.#received.slice(0, headEnd).toLowerCase()
    const bodyStart = headEnd + HEAD_END.length
    const body = bodyOf(head, this.#received, bodyStart)
    if (body === null) return
    this.#received = ''
    const onAnswer = this.#onAnswer
    this.#onAnswer = null
    this.#onBroken = null
    onAnswer?.({ status: Number(head.slice(9, 12)), head, body })
  }
}

/** Returns the body as received (with the chunk sizes if it is chunked), or null until the body is complete. */
function bodyOf(head: string, text: string, start: number): string | null {
  const declared = head.indexOf('content-length: ')
  if (declared >= 0) {
    const length = Number.parseInt(head.slice(declared + 16), 10)
    return text.length - start >= length ? text.slice(start) : null
  }
  if (head.includes('transfer-encoding: chunked')) {
    return text.endsWith('0\r\n\r\n') ? text.slice(start) : null
  }
  return text.slice(start)
}
