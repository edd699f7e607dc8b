/** Finds numbers beyond the range of a double, such as 1e400: parsers read them as infinity, which JSON cannot express. */
import { answerPath } from './error-text.ts'

type Path = (string | number)[]

/** The error of the first such number in parsed JSON, with its place; null if there is none. The nesting must be bounded. */
export function infiniteNumberError(value: unknown): string | null {
  const path = infinitePath(value)
  return path === null ? null : `${answerPath(path.reverse())}: must be a number of at most 1.8e308`
}

/** From the number up to the root. */
function infinitePath(value: unknown): Path | null {
  if (typeof value === 'number') return Number.isFinite(value) ? null : []
  if (typeof value !== 'object' || value === null) return null
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const path = infinitePath(value[index])
      if (path !== null) return [...path, index]
    }
    return null
  }
  for (const [key, member] of Object.entries(value)) {
    const path = infinitePath(member)
    if (path !== null) return [...path, key]
  }
  return null
}
