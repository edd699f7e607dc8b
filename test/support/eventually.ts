/**
 * Asks until the answer is the one that the test waits for, where another process brings it about and gives no signal.
 *
 * ```ts
 * const reply = await eventually(() => caller.read(id), isFinal)
 * ```
 *
 * It rests between two questions. A loop without a rest takes a core from the process that it waits for.
 */
import { setTimeout } from 'node:timers/promises'

const REST_MS = 20

export interface EventuallyOptions {
  /** Ends the questions, as a test's does when its time is up. */
  readonly signal?: AbortSignal
  /** The answer must be right within this time. */
  readonly withinMs?: number
}

export async function eventually<T>(
  ask: () => T | Promise<T>,
  accept: (answer: T) => boolean,
  { signal, withinMs = Number.POSITIVE_INFINITY }: EventuallyOptions = {},
): Promise<T> {
  const startMs = performance.now()
  for (;;) {
    const answer = await ask()
    if (accept(answer)) return answer
    if (performance.now() - startMs > withinMs) {
      throw new Error(`after ${withinMs} ms the answer is still ${JSON.stringify(answer)}`)
    }
    await setTimeout(REST_MS, undefined, signal && { signal })
  }
}
