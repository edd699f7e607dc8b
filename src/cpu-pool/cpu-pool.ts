/**
 * The threads for CPU-heavy work: large request bodies, token counts, large answers, long checks against a schema. They
 * keep such work from holding the event loop of the HTTP server.
 *
 * Accounts share the threads fairly. Requests enter the pool before their first task, and only so many may be in it: the
 * next one is rejected. Jobs wait for a thread however many there are, because their answers have been paid for.
 */
import { Stop, type StopListener, type StopSignal } from '../job/stop.ts'
import { Counts } from '../sharing/counts.ts'
import { FairSlots } from '../sharing/fair-slots.ts'
import { PoolThread } from './pool-thread.ts'
import type { TaskInput, TaskName, TaskOutput } from './tasks.ts'

/** Whose task it is. */
export interface CpuUser {
  readonly account: string
  /** The share of the threads while others wait, as that of the account's tier. */
  readonly weight: number
}

export interface CpuPoolOptions {
  readonly threads: number
  /** Requests that may be in the pool at once, with a task that runs or waits. */
  readonly maxRequests: number
  /** What the heap of one thread may hold, in MiB. */
  readonly heapMb: number
  /** Called after each task that ran, with the time that it took on its thread. */
  readonly onTask?: (name: TaskName, ms: number) => void
  /** Called for each request that may not enter. */
  readonly onRejected?: () => void
  /** Milliseconds that never go back. */
  readonly steadyMs: () => number
}

/** Tasks that run, tasks that wait for a thread, and requests that are in the pool. */
export interface CpuPoolState {
  readonly running: number
  readonly waiting: number
  readonly requests: number
}

/** An account may fill this part of the room for requests. */
const ACCOUNT_PART = 4

export class CpuPool {
  readonly #options: CpuPoolOptions
  readonly #slots: FairSlots
  readonly #requests = new Counts<string>()
  readonly #idle: PoolThread[] = []
  readonly #all = new Set<PoolThread>()
  /** Stops every task when the pool is closed. */
  readonly #closing = new Stop()

  constructor(options: CpuPoolOptions) {
    this.#options = options
    this.#slots = new FairSlots({ limit: options.threads, reserve: 0 })
  }

  get state(): CpuPoolState {
    const { held, waiting } = this.#slots
    return { running: held.total, waiting: waiting.total, requests: this.#requests.total }
  }

  /** Whether a request of the account may enter. Each one that entered leaves once. */
  enter(account: string): boolean {
    const { maxRequests } = this.#options
    const most = Math.max(1, Math.floor(maxRequests / ACCOUNT_PART))
    if (this.#requests.total >= maxRequests || this.#requests.of(account) >= most) {
      this.#options.onRejected?.()
      return false
    }
    this.#requests.add(account, 1)
    return true
  }

  leave(account: string): void {
    this.#requests.add(account, -1)
  }

  /**
   * Does a task on a thread as soon as one is free. Resolves with null when the signal stops it first; a thread that has
   * begun ends the task unheard. Rejects with `TaskFailed`.
   */
  async run<Name extends TaskName>(
    name: Name,
    input: TaskInput<Name>,
    { account, weight }: CpuUser,
    signal: StopSignal,
  ): Promise<TaskOutput<Name> | null> {
    const acquired = this.#slots.acquire(account, weight, signal)
    if (!(acquired instanceof Promise ? await acquired : acquired)) return null
    if (signal.reason !== null || this.#closing.reason !== null) {
      this.#slots.release(account)
      return null
    }
    return unlessStopped(this.#runNow(name, input, account), [signal, this.#closing])
  }

  /** Tasks that wait or run resolve with null. */
  async close(): Promise<void> {
    this.#closing.now('release')
    await Promise.all([...this.#all].map((thread) => thread.close()))
  }

  async #runNow<Name extends TaskName>(
    name: Name,
    input: TaskInput<Name>,
    account: string,
  ): Promise<TaskOutput<Name>> {
    const { steadyMs, onTask } = this.#options
    const startedMs = steadyMs()
    try {
      const thread = this.#idleThread() ?? this.#start()
      try {
        return await thread.run(name, input)
      } finally {
        if (thread.isDead) this.#all.delete(thread)
        else this.#idle.push(thread)
      }
    } finally {
      onTask?.(name, steadyMs() - startedMs)
      this.#slots.release(account)
    }
  }

  /** A thread may die after it has sent its reply, while it is idle. */
  #idleThread(): PoolThread | undefined {
    for (let thread = this.#idle.pop(); thread !== undefined; thread = this.#idle.pop()) {
      if (!thread.isDead) return thread
      this.#all.delete(thread)
    }
    return undefined
  }

  #start(): PoolThread {
    const thread = new PoolThread(this.#options.heapMb)
    this.#all.add(thread)
    return thread
  }
}

/** Null when a signal stops first; the result is then dropped, and an error too. */
function unlessStopped<Result>(
  result: Promise<Result>,
  signals: readonly StopSignal[],
): Promise<Result | null> {
  return new Promise((resolve, reject) => {
    const listener: StopListener = { onStop: () => resolve(null) }
    for (const signal of signals) signal.listen(listener)
    result
      .finally(() => {
        for (const signal of signals) signal.unlisten(listener)
      })
      .then(resolve, reject)
  })
}
