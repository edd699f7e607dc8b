/**
 * Polls until the result is right, for results that another process produces without a signal.
 *
 * ```ts
 * const reply = await eventually(() => caller.read(id), isFinal)
 * ```
 *
 * It pauses between two polls, because a loop without a pause would take a core from that process.
 */
import { setTimeout } from 'node:timers/promises'

const REST_MS = 20

export interface EventuallyOptions {
  /** Stops the polling, for example when the test's time is up. */
  readonly signal?: AbortSignal
  /** The time within which the result must be right. */
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
