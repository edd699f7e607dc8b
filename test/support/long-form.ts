/** Says whether the tests run in their long form: with PARLEY_LONG=1, which `npm run test:long` sets. */

export const LONG = Boolean(process.env.PARLEY_LONG)

/**
 * Returns a suffix for the name of each run of a test: one empty suffix in the short form, `count` suffixes in the long form.
 * Each run is a test with its own seed and figures, so an interrupted long form shows how far it got.
 */
export function runsOf(count: number): readonly string[] {
  if (!LONG) return ['']
  return Array.from({ length: count }, (_, index) => `, run ${index + 1} of ${count}`)
}
