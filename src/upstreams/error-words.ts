/**
 * Finds the message in the body of an error response. Each server puts it in a different place, and any field can have any
 * type.
 */
import { isObject } from '../json-object.ts'
import { assertFitsHeap, FITS_ANY_HEAP } from '../json-text/json-heap.ts'

/** The members that may contain a message, most specific first. */
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
  // Portkey's gateway uses this name if it cannot reach the server behind it.
  'html-message',
]

/** Messages of known servers are nested a little less deep. */
const MAX_DEPTH = 5
/** The maximum number of errors that are joined, because more would not explain more. */
const MAX_ERRORS = 8

/** Returns the server's message in any parsed JSON, unmasked; null if there is none. */
export function errorWords(value: unknown, depth = 0): string | null {
  if (typeof value === 'string') return value.trim() === '' ? null : value
  if (typeof value !== 'object' || value === null || depth === MAX_DEPTH) return null
  if (Array.isArray(value)) {
    const all = value.slice(0, MAX_ERRORS).map((each) => errorWords(each, depth + 1))
    return all.filter((words) => words !== null).join('; ') || null
  }
  const provider = providerError(value)
  const theirs = provider === null ? null : errorWords(provider, depth + 1)
  if (theirs !== null) return theirs
  for (const name of MEMBERS) {
    const words = errorWords((value as Readonly<Record<string, unknown>>)[name], depth + 1)
    if (words !== null) return withPlace(value, words)
  }
  return null
}

/**
 * Returns what the provider behind OpenRouter sent; null if there is nothing. It is in `metadata.raw`, often as JSON text.
 * OpenRouter's own message is always "Provider returned error".
 */
export function providerError(error: object): unknown {
  if (!('metadata' in error) || !isObject(error.metadata)) return null
  const { raw } = error.metadata
  if (typeof raw !== 'string') return raw ?? null
  return parse(raw) ?? raw
}

/** FastAPI puts the location of a problem next to its message: `{"loc":["body","messages",0],"msg":"Field required"}`. */
function withPlace(error: object, words: string): string {
  const place = 'loc' in error && Array.isArray(error.loc) ? error.loc : []
  const path = place.filter((step) => typeof step === 'string' || typeof step === 'number').join('.')
  return path === '' ? words : `${path}: ${words}`
}

/** Returns undefined for text that is not JSON. Throws `HeapTooSmall` on a thread whose heap may be too small for the values. */
export function parse(text: string): unknown {
  if (text.length > FITS_ANY_HEAP) assertFitsHeap(text)
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
