/** Runs a task repeatedly, with a pause between runs, until it is stopped. Runs never overlap. */
import type { Clock } from './clock.ts'

export interface PollingLoopOptions {
  readonly clock: Pick<Clock, 'after' | 'about'>
  /** The pause before the first run and between runs is approximate. If this is a function, each pause calls it. */
  readonly pauseMs: number | (() => number)
  readonly task: () => Promise<void>
  /** Called if the task rejects. The loop continues. */
  readonly onError: (error: unknown) => void
}

export class PollingLoop {
  readonly #options: PollingLoopOptions
  #state: 'idle' | 'started' | 'stopped' = 'idle'
  #running: Promise<void> | null = null
  #isRunning = false
  #isWoken = false
  #cancelTimer: () => void = () => {}

  constructor(options: PollingLoopOptions) {
    this.#options = options
  }

  /** Does nothing if the loop was already started or stopped. */
  start(): void {
    if (this.#state !== 'idle') return
    this.#state = 'started'
    this.#pause()
  }

  /** Ends the pause. If the task is running, it runs again right afterwards. */
  wake(): void {
    if (this.#state !== 'started') return
    if (this.#isRunning) {
      this.#isWoken = true
      return
    }
    this.#cancelTimer()
    this.#running = this.#run()
  }

  /** No run starts after this call. Resolves when the run in progress has ended. */
  async stop(): Promise<void> {
    this.#state = 'stopped'
    this.#cancelTimer()
    await this.#running
  }

  #pause(): void {
    const { clock, pauseMs } = this.#options
    const ms = typeof pauseMs === 'number' ? pauseMs : pauseMs()
    const run = () => {
      this.#running = this.#run()
    }
    this.#cancelTimer = clock.about?.(ms, run) ?? clock.after(ms, run)
  }

  async #run(): Promise<void> {
    const { task, onError } = this.#options
    this.#isRunning = true
    do {
      this.#isWoken = false
      try {
        await task()
      } catch (error) {
        onError(error)
      }
    } while (this.#isWoken && this.#state === 'started')
    this.#isRunning = false
    if (this.#state === 'started') this.#pause()
  }
}
