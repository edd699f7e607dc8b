/**
 * Finds the human-readable message in the body of an error, wherever a server puts it: `{"error":{"message":…}}` (OpenAI),
 * `{"error":"…"}` (Ollama), `{"detail":…}` (FastAPI), `{"message":{"detail":[…]}}` (Mistral), or an array of such.
 */

/** The members that contain messages, most specific first. */
const MEMBERS = [
  'message',
  'msg',
  'error',
  'errors',
  'detail',
  'details',
  'error_description',
  'reason',
  'title',
  // Portkey's gateway, when it does not reach the server behind it.
  'html-message',
]

/** A little more than the nesting depth of known servers' messages. */
const MAX_DEPTH = 5
/** More errors would not explain more. */
const MAX_ERRORS = 8

/** Null if there is none. Takes any parsed JSON; the result is not masked. */
export function errorWords(value: unknown, depth = 0): string | null {
  if (typeof value === 'string') return value.trim() === '' ? null : value
  if (typeof value !== 'object' || value === null || depth === MAX_DEPTH) return null
  if (Array.isArray(value)) {
    const all = value.slice(0, MAX_ERRORS).map((each) => errorWords(each, depth + 1))
    return all.filter((words) => words !== null).join('; ') || null
  }
  for (const name of MEMBERS) {
    const words = errorWords((value as Readonly<Record<string, unknown>>)[name], depth + 1)
    if (words !== null) return withPlace(value, words)
  }
  return null
}

/** FastAPI names the location of a problem next to its message: `{"loc":["body","messages",0],"msg":"Field required"}`. */
function withPlace(error: object, words: string): string {
  const place = 'loc' in error && Array.isArray(error.loc) ? error.loc : []
  const path = place.filter((step) => typeof step === 'string' || typeof step === 'number').join('.')
  return path === '' ? words : `${path}: ${words}`
}
