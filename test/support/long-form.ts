/** The long form of a test, which `npm run test:long` asks for by PARLEY_LONG=1. */

export const LONG = Boolean(process.env.PARLEY_LONG)

/**
 * What to append to the name of each run of a test: one run without a suffix in the short form, `count` in the long one.
 * Each run is a test with a seed and figures of its own, so a long form that is stopped shows how far it came.
 */
export function runsOf(count: number): readonly string[] {
  if (!LONG) return ['']
  return Array.from({ length: count }, (_, index) => `, run ${index + 1} of ${count}`)
}
