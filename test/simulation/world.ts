/**
 * Keeps the virtual time of the simulation, and runs everything that happens in it. Everything that production code waits for
 * (timers, and replies of the store, of model servers and of receivers) is an event here, at a time that the seed determines.
 * One event runs at a time. The next one starts when all code that the event continued has run, so the same seed always gives
 * the same history. `hash` identifies the history.
 */
import type { Clock } from '../../src/clock.ts'
import { SeededRandom } from './random.ts'

export const WORLD_START_MS = Date.UTC(2026, 0, 2, 3, 4, 5)

const TIMER = 'timer'

interface WorldEvent {
  atMs: number
  order: number
  readonly label: string
  readonly run: () => void
  readonly thread: SimulatedThread | null
  isCancelled: boolean
}

/** A thread's events happen while the thread runs, late if it was paused, and never after its end. */
export class SimulatedThread {
  readonly name: string
  state: 'running' | 'paused' | 'ended' = 'running'
  /** Counts the timers that are set. Must be 0 after a stop. */
  timers = 0
  resumedMs = Number.NEGATIVE_INFINITY
  missed: WorldEvent[] = []

  constructor(name: string) {
    this.name = name
  }
}

/** `state` is what a person reads first, and `event` is the rest. */
export type OnStep = (atMs: number, text: string, kind: 'state' | 'event') => void

export class World {
  readonly random: SeededRandom
  readonly #onStep: OnStep | null
  /** The heap is binary, with the earliest event first. */
  readonly #events: WorldEvent[] = []
  #nowMs = 0
  #orders = 0
  #hash = 0
  events = 0
  #held: Promise<unknown> | null = null
  onSettled: (() => void) | null = null

  constructor(seed: number, onStep: OnStep | null = null) {
    this.random = new SeededRandom(seed, 1)
    this.#onStep = onStep
  }

  get nowMs(): number {
    return this.#nowMs
  }

  get hash(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, '0')
  }

  /**
   * Runs the function after this many milliseconds, on a thread or outside all processes (null). The returned function
   * cancels the event.
   * @param label a text for the history
   */
  after(ms: number, label: string, run: () => void, thread: SimulatedThread | null = null): () => void {
    const atMs = this.#nowMs + Math.max(0, ms)
    const event: WorldEvent = { atMs, order: this.#orders++, label, run, thread, isCancelled: false }
    push(this.#events, event)
    return () => {
      event.isCancelled = true
    }
  }

  /** The text becomes part of the hash, and goes to listeners. */
  note(text: string, kind: 'state' | 'event' = 'state'): void {
    let hash = this.#hash
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
    this.#hash = Math.imul(hash ^ Math.floor(this.#nowMs * 1000), 0x01000193)
    this.#onStep?.(this.#nowMs, text, kind)
  }

  /** Holds back all further events until the promise has settled, because it waits for something real. */
  hold(real: Promise<unknown>): void {
    this.#held = real
  }

  async runUntil(endMs: number, isOver: () => boolean = () => false): Promise<void> {
    for (let event = this.#events[0]; event !== undefined && event.atMs <= endMs; event = this.#events[0]) {
      pop(this.#events)
      if (event.isCancelled || event.thread?.state === 'ended') continue
      this.#nowMs = Math.max(this.#nowMs, event.atMs)
      if (event.thread?.state === 'paused') {
        event.thread.missed.push(event)
        continue
      }
      this.events += 1
      this.note(event.label, 'event')
      event.run()
      await settledPromises()
      if (this.#held !== null) {
        await this.#held
        this.#held = null
        await settledPromises()
      }
      this.onSettled?.()
      if (isOver()) return
    }
    this.#nowMs = Math.max(this.#nowMs, endMs)
  }

  /** What the thread missed happens at once, timers first, as in an event loop. */
  resume(thread: SimulatedThread): void {
    if (thread.state !== 'paused') return
    thread.state = 'running'
    thread.resumedMs = this.#nowMs
    const missed = thread.missed.splice(0)
    const isTimer = ({ label }: WorldEvent) => label.startsWith(TIMER)
    for (const event of [...missed.filter(isTimer), ...missed.filter((one) => !isTimer(one))]) {
      push(this.#events, Object.assign(event, { atMs: this.#nowMs, order: this.#orders++ }))
    }
  }

  /** @param offsetMs returns the milliseconds by which the wall clock is wrong, which may change */
  clockOf(thread: SimulatedThread, offsetMs: () => number): Clock {
    return {
      nowMs: () => Math.floor(WORLD_START_MS + this.#nowMs + offsetMs()),
      steadyMs: () => this.#nowMs,
      after: (ms, callback) => {
        thread.timers += 1
        let isSet = true
        const unset = () => {
          if (isSet) thread.timers -= 1
          isSet = false
        }
        const fire = () => {
          // A timer that was cancelled during a pause of its thread may be among the missed events.
          if (!isSet) return
          unset()
          callback()
        }
        const cancel = this.after(ms, `${TIMER} of ${thread.name}`, fire, thread)
        return () => {
          unset()
          cancel()
        }
      },
    }
  }
}

/**
 * Resolves when every promise that can settle without a further event has settled. The language specifies that microtasks run
 * before, and in which order. Production code that requests a turn of the event loop (`setImmediate`) gets it in the order of
 * the requests.
 */
function settledPromises(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

function isBefore(one: WorldEvent, other: WorldEvent): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order)
}

function push(heap: WorldEvent[], event: WorldEvent): void {
  let at = heap.length
  heap.push(event)
  while (at > 0) {
    const above = (at - 1) >> 1
    const parent = heap[above] as WorldEvent
    if (!isBefore(event, parent)) break
    heap[at] = parent
    at = above
  }
  heap[at] = event
}

function pop(heap: WorldEvent[]): void {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
  let at = 0
  for (;;) {
    let below = 2 * at + 1
    const right = heap[below + 1]
    if (below >= heap.length) break
    if (right !== undefined && isBefore(right, heap[below] as WorldEvent)) below += 1
    const child = heap[below] as WorldEvent
    if (!isBefore(child, last)) break
    heap[at] = child
    at = below
  }
  heap[at] = last
}
