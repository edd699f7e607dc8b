/**
 * Checks the version of Node against `engines` in package.json, because npm only warns. This file runs first and must work in
 * any version of Node, so it imports nothing and uses no new syntax.
 */

/** Earlier versions truncate text from SQLite at a NUL, or contain an SQLite before 3.51.3. */
const FIRST_GOOD: readonly (readonly [major: number, minor: number])[] = [
  [24, 16],
  [26, 1],
]

/** Returns the error message for an unsupported version, and null for a supported one. */
export function nodeProblem(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const line = FIRST_GOOD.find(([good]) => good === major)
  const good = line ? minor >= line[1] : FIRST_GOOD.every(([known]) => major > known)
  if (good) return null
  const wanted = FIRST_GOOD.map((first) => first.join('.')).join(', ')
  return `Parley needs Node ${wanted} or newer; this is ${version}.`
}
