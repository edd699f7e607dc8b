/** Sends messages to another thread, all of one turn of the event loop together: waking the other side costs more than a message. */
import type { Worker } from 'node:worker_threads'

/** What may be moved to another thread. */
export type Moved = Parameters<Worker['postMessage']>[1]

export interface PortEnd {
  postMessage(value: unknown, transfer?: Moved): void
}

export class TurnPort<Message> {
  readonly #port: PortEnd
  #unsent: Message[] = []

  constructor(port: PortEnd) {
    this.#port = port
  }

  /** Sends the message at the end of this turn. */
  send(message: Message): void {
    if (this.#unsent.push(message) === 1) setImmediate(this.#flush)
  }

  /** Sends what waits, then the message with what is moved to the other thread. Throws if that cannot be moved. */
  sendWith(message: Message, moved: Moved): void {
    this.#flush()
    this.#port.postMessage([message], moved)
  }

  readonly #flush = (): void => {
    if (this.#unsent.length === 0) return
    const messages = this.#unsent
    this.#unsent = []
    this.#port.postMessage(messages)
  }
}
