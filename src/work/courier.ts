/** Drives callbacks on this node: takes those that are due, sends them, and records what came of it. */
import type { Clock } from '../clock.ts'
import { callbackRequest, nextAttempt } from '../life/call-back.ts'
import type { Poster, PostResult } from '../net/post.ts'
import type { CallbackStore, DueCallback } from '../store/callback-store.ts'

/** Callbacks under way at once. */
const CONCURRENCY = 128
/** How often it looks for callbacks whose pause has ended. */
const LOOK_MS = 1000
/** Beyond an attempt's own deadline, before a taken callback is due again. */
const LEASE_SLACK_MS = 30_000
/** On stopping, how long callbacks under way may take; what is cut off is sent again later. */
const STOP_GRACE_MS = 5000

export interface CourierOptions {
  readonly store: CallbackStore
  readonly poster: Poster
  readonly clock: Clock
  readonly random: () => number
  readonly timeoutMs: number
  readonly pausesS: readonly number[]
  readonly onAttempt: (due: DueCallback, result: PostResult, next: 'delivered' | 'given up' | 'due') => void
  readonly onTrouble: (error: unknown) => void
}

export class Courier {
  readonly #options: CourierOptions
  #underWay = 0
  #taking = false
  #again = false
  #stopped = false
  #onIdle: (() => void) | null = null
  #cancelLook: () => void = () => {}

  constructor(options: CourierOptions) {
    this.#options = options
  }

  begin(): void {
    this.#look()
  }

  /** A callback has become due. */
  wake(): void {
    this.#again = true
    if (!this.#taking && !this.#stopped) void this.#takeAll()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelLook()
    const { poster, clock } = this.#options
    if (this.#underWay > 0 || this.#taking) {
      const cancel = clock.after(STOP_GRACE_MS, () => void poster.close())
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve
      })
      cancel()
    }
    await poster.close()
  }

  #look(): void {
    this.wake()
    this.#cancelLook = this.#options.clock.after(LOOK_MS, () => this.#look())
  }

  async #takeAll(): Promise<void> {
    const { store, clock, timeoutMs, onTrouble } = this.#options
    this.#taking = true
    try {
      while (this.#again && this.#underWay < CONCURRENCY && !this.#stopped) {
        this.#again = false
        const nowMs = clock.nowMs()
        const places = CONCURRENCY - this.#underWay
        const due = await store.takeCallbacks(places, nowMs, nowMs + timeoutMs + LEASE_SLACK_MS)
        if (due.length === places) this.#again = true
        for (const one of due) void this.#deliver(one)
      }
    } catch (error) {
      onTrouble(error)
    } finally {
      this.#taking = false
      this.#idleIfSo()
    }
  }

  /** Never rejects: a callback whose record could not be written is due again when its lease ends. */
  async #deliver(due: DueCallback): Promise<void> {
    const { store, poster, clock, random, pausesS, onAttempt, onTrouble } = this.#options
    this.#underWay += 1
    try {
      const result = await poster.post(callbackRequest(due, clock.nowMs()))
      const nowMs = clock.nowMs()
      const next = nextAttempt(result, due.attempt, pausesS, random(), nowMs)
      await store.recordCallback(due.view.id, due.attempt, next, nowMs)
      onAttempt(due, result, next.kind)
    } catch (error) {
      onTrouble(error)
    } finally {
      this.#underWay -= 1
      this.#idleIfSo()
      if (this.#again) this.wake()
    }
  }

  #idleIfSo(): void {
    if (this.#underWay === 0 && !this.#taking) this.#onIdle?.()
  }
}
