/**
 * Shares something among the tests of a suite or a file: it starts when the first test uses it, and ends after the last one.
 *
 * ```ts
 * const sharedParley = onFirstUse((t) => startParley(t))
 * test('…', async () => {
 *   const parley = await sharedParley()
 * ```
 *
 * If a name pattern selects none of the tests, hooks do not run, so nothing may be open then.
 */
import { after, before } from 'node:test'
import type { Lifetime } from '../parley.ts'

export function onFirstUse<T>(start: (t: Lifetime) => Promise<T>): () => Promise<T> {
  const ends: (() => unknown)[] = []
  let started: Promise<T> | undefined
  after(async () => {
    for (const end of ends) await end()
  })
  return () => {
    started ??= start({ after: (end) => void ends.push(end) })
    return started
  }
}

/** Starts something before the first test of a suite. Unlike the body of the suite, this runs only if a test is selected. */
export function beforeTests(start: (t: Lifetime) => Promise<unknown>): void {
  before(onFirstUse(start))
}
