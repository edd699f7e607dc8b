/** Runs groups of operations: finds out which operation failed, and whether a commit with an unknown outcome was stored. */
import { setTimeout as pause } from 'node:timers/promises'
import { Failed } from '../group-commit.ts'
import { StoreUnavailable } from '../store.ts'
import { OutcomeUnknown } from './database.ts'

/**
 * Repeating stops after this time, which is longer than a restart of the database takes. Then the waiting caller gets a 503.
 */
const MAX_UNKNOWN_MS = 20_000
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 1000

/**
 * If the database rejects the group, each operation runs alone, because only one may be at fault. If it is unavailable, all
 * operations fail.
 */
export async function eachAlone<Op, Result>(
  ops: readonly Op[],
  run: (ops: readonly Op[]) => Promise<readonly Result[]>,
): Promise<readonly (Result | Failed)[]> {
  if (ops.length === 0) return []
  try {
    return await run(ops)
  } catch (error) {
    if (error instanceof StoreUnavailable || ops.length === 1) return ops.map(() => new Failed(error))
    const results: (Result | Failed)[] = []
    for (const op of ops) results.push(...(await eachAlone([op], run)))
    return results
  }
}

/** `again` repeats a write whose commit had an unknown outcome. It does not change what is already stored. */
export type Mode = 'first' | 'again'

/**
 * Repeats `run` as `again` until the outcome of the commit is known. If the database rejects the repeated group, for example
 * because an account was deleted since, each operation runs alone as `again`.
 */
export function eachAloneUntilKnown<Op, Result>(
  ops: readonly Op[],
  run: (ops: readonly Op[], mode: Mode) => Promise<readonly Result[]>,
): Promise<readonly (Result | Failed)[]> {
  let mode: Mode = 'first'
  return eachAlone(ops, (some) =>
    untilCommitKnown(
      () => run(some, mode),
      () => {
        if (some === ops) mode = 'again'
        return run(some, 'again')
      },
    ),
  )
}

/**
 * If the outcome of `first` is unknown, runs `again` until it succeeds or certainly fails. `again` must detect what `first`
 * stored, and do the rest. Rejects with `StoreUnavailable` if this takes too long.
 */
async function untilCommitKnown<T>(first: () => Promise<T>, again: () => Promise<T>): Promise<T> {
  let error: unknown
  try {
    return await first()
  } catch (failure) {
    if (!(failure instanceof OutcomeUnknown)) throw failure
    error = failure
  }
  const untilMs = performance.now() + MAX_UNKNOWN_MS
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
