/**
 * The request threads as the main thread has them: starts them, hands each new connection to the one with the fewest, answers what they
 * send, and stops them. A thread that ends unasked, or whose event loop hangs, is reported: the process must end.
 */
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Worker } from 'node:worker_threads'
import type { ThreadView } from '../admin/overview.ts'
import type { Clock } from '../clock.ts'
import type { CompletedRequest } from '../http/server.ts'
import { busyMeter } from './busy-meter.ts'
import type { ToMain, ToThread } from './messages.ts'
import type { Call } from './thread-calls.ts'
import { Tunnel } from './tunnel.ts'
import { TurnPort } from './turn-port.ts'

/** How long connections may be spread unevenly: those that are closed together are mostly opened together, too. */
const UNEVEN_MS = 500

export interface RequestThreadsOptions {
  readonly threads: number
  readonly script: URL
  /** What each thread is started with. */
  readonly dataOf: (thread: number) => unknown
  /** Answers the calls of a thread. */
  readonly callsOf: (port: Pick<TurnPort<ToThread>, 'send'>) => { received(message: Call): void }
  /** Serves a tunnel as the HTTP server serves a connection. */
  readonly onTunnel: (tunnel: Duplex) => void
  readonly onCompleted: (request: CompletedRequest) => void
  readonly onStalled: (address: string | null) => void
  readonly clock: Pick<Clock, 'after'>
  /** A thread ended that was not to end. */
  readonly onFatal: (error: Error) => void
}

export class RequestThreads {
  readonly #options: RequestThreadsOptions
  readonly #threads: RequestThread[]
  #isBalancing = false

  constructor(options: RequestThreadsOptions) {
    this.#options = options
    this.#threads = Array.from({ length: options.threads }, (_, index) => this.#start(index))
  }

  /** Rejects if one of them cannot start. */
  async started(): Promise<void> {
    await Promise.all(this.#threads.map(({ ready }) => ready))
  }

  state(): readonly ThreadView[] {
    return this.#threads.map((thread) => thread.state())
  }

  /**
   * Hands a connection over that was not read from yet.
   * @param release called once when it is closed
   */
  accept(socket: Socket, release: () => void): void {
    const [first, ...others] = this.#threads
    if (first === undefined) throw new Error('there is no request thread')
    const fewest = others.reduce((least, one) => (one.connections < least.connections ? one : least), first)
    fewest.accept(socket, release)
  }

  /** Resolves when every request in progress has its response, and every connection is closed. No connection may be handed over after. */
  async drain(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.drain()))
  }

  /** Closes the connections that are still open. */
  cutOff(): void {
    for (const thread of this.#threads) thread.cutOff()
  }

  async end(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.end()))
  }

  #start(index: number): RequestThread {
    const { script, dataOf } = this.#options
    const worker = new Worker(script, { workerData: dataOf(index), name: `request-${index}` })
    return new RequestThread(worker, this.#options, () => this.#balanceLater())
  }

  #balanceLater(): void {
    if (this.#isBalancing) return
    this.#isBalancing = true
    this.#options.clock.after(UNEVEN_MS, () => {
      this.#isBalancing = false
      this.#balance()
    })
  }

  /**
   * A connection that has been read from cannot be moved. So a thread that has two more than another closes one after a response, and
   * the client's next connection goes to the thread with the fewest.
   */
  #balance(): void {
    const kept = this.#threads.map(({ keptConnections }) => keptConnections)
    const fewest = Math.min(...kept)
    for (const thread of this.#threads) {
      const surplus = thread.keptConnections - fewest - 1
      if (surplus > 0) thread.shed(Math.floor((surplus + 1) / 2))
    }
  }
}

class RequestThread {
  /** Resolves when it serves what it is sent. Rejects if it cannot start. */
  readonly ready: Promise<void>
  readonly #worker: Worker
  readonly #port: TurnPort<ToThread>
  readonly #calls: { received(message: Call): void }
  readonly #options: RequestThreadsOptions
  readonly #onClosed: () => void
  readonly #open = new Map<number, { readonly release: () => void; readonly address: string | null }>()
  readonly #isReady = Promise.withResolvers<void>()
  readonly #drained = Promise.withResolvers<void>()
  readonly #exited: Promise<void>
  #lastConnection = 0
  #toShed = 0
  #isEnding = false
  readonly #busy: () => number

  constructor(worker: Worker, options: RequestThreadsOptions, onClosed: () => void) {
    this.#worker = worker
    this.#options = options
    this.#onClosed = onClosed
    this.#port = new TurnPort(worker)
    this.#busy = busyMeter(worker.performance)
    this.#calls = options.callsOf(this.#port)
    this.ready = this.#isReady.promise
    worker.once('error', this.#isReady.reject)
    this.#exited = new Promise((resolve) => worker.once('exit', () => resolve()))
    worker.on('message', (messages: readonly ToMain[]) => {
      for (const message of messages) this.#received(message)
    })
    let failure = new Error('a request thread exited')
    worker.on('error', (error: Error) => {
      failure = error
    })
    void this.#exited.then(() => {
      if (!this.#isEnding) options.onFatal(failure)
    })
  }

  get connections(): number {
    return this.#open.size
  }

  /** The number of open connections, without those that the thread is to close. */
  get keptConnections(): number {
    return this.#open.size - this.#toShed
  }

  state(): ThreadView {
    return { connections: this.connections, busy: this.#busy() }
  }

  accept(socket: Socket, release: () => void): void {
    this.#lastConnection += 1
    const connection = this.#lastConnection
    const address = socket.remoteAddress ?? null
    try {
      this.#port.sendWith(['connection', connection, socket], [socket])
      this.#open.set(connection, { release, address })
    } catch {
      // Its client was gone before it could be moved.
      socket.destroy()
      release()
    }
  }

  shed(connections: number): void {
    this.#toShed += connections
    this.#port.send(['shed', connections])
  }

  drain(): Promise<void> {
    this.#port.send(['stop'])
    return this.#drained.promise
  }

  cutOff(): void {
    this.#port.send(['cut off'])
  }

  async end(): Promise<void> {
    this.#isEnding = true
    await this.#worker.terminate()
    await this.#exited
  }

  #received(message: ToMain): void {
    const { onTunnel, onCompleted } = this.#options
    switch (message[0]) {
      case 'completed': {
        const [, requestId, method, route, status, ms, from, account, jobIds] = message
        onCompleted({ requestId, method, route, status, ms, from, account, jobIds })
        break
      }
      case 'closed':
        this.#closed(message[1], message[2])
        break
      case 'tunnel':
        onTunnel(new Tunnel(message[1], message[2]))
        break
      case 'ready':
        this.#isReady.resolve()
        break
      case 'drained':
        this.#drained.resolve()
        break
      default:
        this.#calls.received(message)
    }
  }

  #closed(connection: number, stalled: boolean): void {
    const closed = this.#open.get(connection)
    this.#open.delete(connection)
    if (this.#toShed > 0) this.#toShed -= 1
    closed?.release()
    if (stalled) this.#options.onStalled(closed?.address ?? null)
    this.#onClosed()
  }
}
