/**
 * Runs CPU-heavy work on threads: large request bodies, token counts, large answers, and long checks against a schema. So this
 * work does not block the event loop of the HTTP server.
 *
 * Accounts share the threads fairly, and the last of four or more threads goes only to accounts that use none. Requests enter
 * the pool before their first task. Beyond a limit, they are rejected. Jobs are never rejected, however many wait for a thread,
 * because their answers were paid for.
 */
import type { Clock } from '../clock.ts'
import { Stop, type StopListener, type StopSignal } from '../job/stop.ts'
import { Counts } from '../sharing/counts.ts'
import { FairSlots } from '../sharing/fair-slots.ts'
import { PoolThread } from './pool-thread.ts'
import type { TaskInput, TaskName, TaskOutput } from './thread.ts'

export interface CpuUser {
  readonly account: string
  /** The weight of the account's tier counts while others wait. */
  readonly weight: number
}

export interface CpuPoolOptions {
  readonly threads: number
  /** Limits the requests in the pool. A request is in the pool from `enter` to `leave`. */
  readonly maxRequests: number
  /** Each thread may use this much heap, in MiB. */
  readonly heapMb: number
  /**
   * How much CPU time a task may take, in milliseconds. The first check happens after this much real time. The thread is
   * terminated when it has taken this much since then, so a task can take up to three times as much.
   */
  readonly taskCpuMs: number
  /** A thread exits after it was idle for this long, because it keeps the heap that its largest task needed. */
  readonly idleMs: number
  /** The pool calls this after each task with the time that the task took. */
  readonly onTask?: (name: TaskName, ms: number) => void
  readonly onRejected?: () => void
  readonly clock: Clock
  /** Tests replace the script of the threads. */
  readonly script?: URL
}

/** `running` and `waiting` count tasks. `requests` counts the requests that have entered the pool. */
export interface CpuPoolState {
  readonly running: number
  readonly waiting: number
  readonly requests: number
}

/** One account may use a quarter of the maximum number of requests. */
const ACCOUNT_PART = 4
/** With fewer threads, none is reserved, because a single account would have too few. */
const LEAST_THREADS_WITH_RESERVE = 4

interface IdleThread {
  readonly thread: PoolThread
  readonly cancelEnd: () => void
}

export class CpuPool {
  readonly #options: CpuPoolOptions
  readonly #slots: FairSlots
  readonly #requests = new Counts<string>()
  /** Threads are taken from the end, so that those at the start stay idle and exit. */
  readonly #idle: IdleThread[] = []
  readonly #all = new Set<PoolThread>()
  readonly #closing = new Stop()

  constructor(options: CpuPoolOptions) {
    this.#options = options
    const { threads } = options
    this.#slots = new FairSlots({ limit: threads, reserve: threads < LEAST_THREADS_WITH_RESERVE ? 0 : 1 })
  }

  get state(): CpuPoolState {
    const { held, waiting } = this.#slots
    return { running: held.total, waiting: waiting.total, requests: this.#requests.total }
  }

  /** Whether a request of the account may enter. Call `leave` once for each request that entered. */
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
   * Runs a task as soon as a thread is free. Resolves with null if the signal stops the task first. A task that is already
   * running then continues, but its result is ignored. Rejects with `TaskFailed`.
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
    for (const { cancelEnd } of this.#idle) cancelEnd()
    await Promise.all([...this.#all].map((thread) => thread.close()))
  }

  async #runNow<Name extends TaskName>(
    name: Name,
    input: TaskInput<Name>,
    account: string,
  ): Promise<TaskOutput<Name>> {
    const { clock, onTask } = this.#options
    const startedMs = clock.steadyMs()
    try {
      const thread = this.#idleThread() ?? this.#start()
      const endWatch = this.#watch(name, thread)
      try {
        return await thread.run(name, input)
      } finally {
        endWatch()
        if (thread.isDead) this.#all.delete(thread)
        else this.#keepIdle(thread)
      }
    } finally {
      onTask?.(name, clock.steadyMs() - startedMs)
      this.#slots.release(account)
    }
  }

  /**
   * Terminates the thread if its task takes too much CPU time. Real time would be wrong, because threads may wait a long time
   * for a core on a busy machine. Returns a function that ends the watch.
   */
  #watch(name: TaskName, thread: PoolThread): () => void {
    const { clock, taskCpuMs } = this.#options
    let isOver = false
    let firstCpuMs: number | null = null
    const check = async () => {
      const cpuMs = await thread.cpuMs()
      if (isOver || thread.isDead) return
      firstCpuMs ??= cpuMs
      if (cpuMs - firstCpuMs >= taskCpuMs)
        thread.end(`The task '${name}' took more than ${taskCpuMs} ms of CPU time.`)
      else cancelCheck = clock.after(taskCpuMs, () => void check())
    }
    let cancelCheck = clock.after(taskCpuMs, () => void check())
    return () => {
      isOver = true
      cancelCheck()
    }
  }

  #keepIdle(thread: PoolThread): void {
    const { clock, idleMs } = this.#options
    const end = () => {
      this.#idle.splice(this.#idle.indexOf(idle), 1)
      this.#all.delete(thread)
      void thread.close()
    }
    const idle: IdleThread = { thread, cancelEnd: clock.after(idleMs, end) }
    this.#idle.push(idle)
  }

  /** Skips threads that died while they were idle. */
  #idleThread(): PoolThread | null {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      idle.cancelEnd()
      if (!idle.thread.isDead) return idle.thread
      this.#all.delete(idle.thread)
    }
    return null
  }

  #start(): PoolThread {
    const { heapMb, script } = this.#options
    const thread = new PoolThread(heapMb, script)
    this.#all.add(thread)
    return thread
  }
}

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
