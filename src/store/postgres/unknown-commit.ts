/** What to do where a group failed, or where nobody knows whether it did. */
import { setTimeout as pause } from 'node:timers/promises'
import type { OpResult } from '../group-commit.ts'
import { StoreUnavailable } from '../store.ts'
import { OutcomeUnknown } from './errors.ts'

/** A caller waits for the answer: after so long it is told 503 rather than nothing. A restart takes less. */
const KNOWN_WITHIN_MS = 20_000
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 1000

/**
 * Carries out a group as one; if the database refuses that, each operation on its own, for one of them may be at fault. A
 * database that cannot be reached refuses all alike.
 */
export async function eachAlone<Op, Value>(
  ops: readonly Op[],
  carryOut: (ops: readonly Op[]) => Promise<readonly Value[]>,
): Promise<OpResult[]> {
  if (ops.length === 0) return []
  try {
    return (await carryOut(ops)).map((value) => ({ value }))
  } catch (error) {
    if (error instanceof StoreUnavailable || ops.length === 1) return ops.map(() => ({ error }))
    const results: OpResult[] = []
    for (const op of ops) results.push(...(await eachAlone([op], carryOut)))
    return results
  }
}

/**
 * Carries out `first`; where its outcome is unknown, `again`, until that succeeds or fails for sure. `again` finds what
 * `first` did, and does what it did not do. Rejects with `StoreUnavailable` when it took too long.
 */
export async function untilCommitKnown<T>(first: () => Promise<T>, again: () => Promise<T>): Promise<T> {
  let error: unknown
  try {
    return await first()
  } catch (failure) {
    if (!(failure instanceof OutcomeUnknown)) throw failure
    error = failure
  }
  const untilMs = performance.now() + KNOWN_WITHIN_MS
  for (let pauseMs = FIRST_PAUSE_MS; performance.now() < untilMs; pauseMs *= 2) {
    await pause(Math.min(pauseMs, LONGEST_PAUSE_MS))
    try {
      return await again()
    } catch (failure) {
      if (!(failure instanceof StoreUnavailable)) throw failure
      error = failure
    }
  }
  throw error
}
