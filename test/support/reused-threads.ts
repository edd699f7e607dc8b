/**
 * Lets the tests of a process use threads of the store and of leases one after the other. Starting one takes 30 ms of CPU, mostly to
 * load its modules, and most tests start a Parley or open a store. A thread that fails or is terminated is not used again.
 */
import { EventEmitter } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import workerThreads, { MessageChannel, type MessagePort, type WorkerOptions } from 'node:worker_threads'

const SCRIPT = new URL('reused-thread.ts', import.meta.url)
const REUSED = /\/src\/(store\/sqlite\/thread|app\/heartbeat-thread)\.ts$/

/** Node's own class, because `reuseThreads` replaces what others import. */
const { Worker } = workerThreads

/** By script. */
const idle = new Map<string, workerThreads.Worker[]>()

/** The part of `Worker` that the users of these threads need. */
class ReusedThread extends EventEmitter {
  readonly #thread: workerThreads.Worker
  readonly #port: MessagePort

  constructor({ href }: URL, { workerData, ...options }: WorkerOptions) {
    super()
    const others = idle.get(href) ?? []
    idle.set(href, others)
    const thread = others.pop() ?? new Worker(SCRIPT, options)
    const { port1, port2 } = new MessageChannel()
    this.#thread = thread
    this.#port = port1
    const failed = (error: Error) => this.emit('error', error)
    const exited = (code: number) => this.emit('exit', code)
    thread.ref()
    thread.once('error', failed).once('exit', exited)
    port1.on('message', (message) => this.emit('message', message))
    // The thread says when it has ended its work. Its port also closes when it dies.
    thread.once('message', () => {
      thread.off('error', failed).off('exit', exited)
      thread.unref()
      others.push(thread)
      this.emit('exit', 0)
    })
    thread.postMessage({ script: href, port: port2, workerData }, [port2])
  }

  postMessage(message: unknown): void {
    this.#port.postMessage(message)
  }

  terminate(): Promise<number> {
    return this.#thread.terminate()
  }
}

export function reuseThreads(): void {
  function start(script: URL, options: WorkerOptions = {}): unknown {
    return REUSED.test(script.pathname) ? new ReusedThread(script, options) : new Worker(script, options)
  }
  Object.assign(workerThreads, { Worker: start })
  syncBuiltinESMExports()
}
