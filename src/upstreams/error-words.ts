/**
 * Finds the words for people in the body of an error, wherever a server put them: `{"error":{"message":…}}` (OpenAI),
 * `{"error":"…"}` (Ollama), `{"detail":…}` (FastAPI), `{"message":{"detail":[…]}}` (Mistral), or an array of such.
 */

/** The members that hold words, the one that says most first. */
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

/** How deep the words of known servers are, and a little more. */
const MAX_DEPTH = 5
/** A list of more errors explains no more. */
const MAX_ERRORS = 8

/** Null where there are none. Takes any parsed JSON; the result is not masked. */
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

/** FastAPI names the place of a problem beside its words: `{"loc":["body","messages",0],"msg":"Field required"}`. */
function withPlace(error: object, words: string): string {
  const place = 'loc' in error && Array.isArray(error.loc) ? error.loc : []
  const path = place.filter((step) => typeof step === 'string' || typeof step === 'number').join('.')
  return path === '' ? words : `${path}: ${words}`
}
