/** Handles failed groups, and commits whose outcome is unknown. */
import { setTimeout as pause } from 'node:timers/promises'
import { Failed } from '../group-commit.ts'
import { StoreUnavailable } from '../store.ts'
import { OutcomeUnknown } from './errors.ts'

/** A caller is waiting for the response: after this time it gets a 503. A restart takes less. */
const MAX_UNKNOWN_MS = 20_000
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 1000

/**
 * Runs a group as one; if the database rejects it, each operation on its own, for one of them may be at fault. A database
 * that cannot be reached fails all of them.
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

/** `again` does not change what is already stored: to repeat an unknown commit. */
export type Mode = 'first' | 'again'

/**
 * The same for writes whose commit may be unknown: `run` is repeated as `again` until the outcome is known. If the database
 * rejects the repeated group, because an account was deleted meanwhile, each operation on its own is a repetition as well.
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
 * Runs `first`; if its commit is unknown, `again`, until that succeeds or certainly fails. `again` finds what `first` did,
 * and does what it did not do. Rejects with `StoreUnavailable` when that took too long.
 */
export async function untilCommitKnown<T>(first: () => Promise<T>, again: () => Promise<T>): Promise<T> {
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
