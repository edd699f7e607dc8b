/** The long form of a test, which `npm run test:long` selects with PARLEY_LONG=1. */

export const LONG = Boolean(process.env.PARLEY_LONG)

/**
 * A suffix for the name of each run of a test: one run without a suffix in the short form, `count` in the long one. Each run
 * is a test with its own seed and figures, so an interrupted long form shows how far it got.
 */
export function runsOf(count: number): readonly string[] {
  if (!LONG) return ['']
  return Array.from({ length: count }, (_, index) => `, run ${index + 1} of ${count}`)
}
