/**
 * Repeats a query until its result is right, for results that another process produces without a signal.
 *
 * ```ts
 * const reply = await eventually(() => caller.read(id), isFinal)
 * ```
 *
 * A loop without pauses would take a CPU core from the other process, so there is a pause between two queries.
 */
import { setTimeout } from 'node:timers/promises'

const REST_MS = 20

export interface EventuallyOptions {
  readonly signal?: AbortSignal
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
