/** The initial limit of concurrent calls of each upstream (`upstreams/concurrency-limit.ts`). */
import { isObject, type JsonObject } from './json-object.ts'
import { OPENAI } from './merge.ts'
import type { Environment, Settings } from './settings.ts'

/** A server that is known to serve any number of calls, or to respond with 429 at once. */
const UNLIMITED_HOST = 'api.openai.com'

/**
 * By upstream: `explicit` if the file or OPENAI_MAX_CONCURRENCY sets `max_concurrency`, `fixed` for OpenAI's own, else `unknown`.
 */
export function knownConcurrency(
  settings: Settings,
  given: JsonObject,
  env: Environment,
): ReadonlyMap<string, 'explicit' | 'fixed' | 'unknown'> {
  const entries = Object.entries(settings.upstreams).map(([name, { base_url }]) => {
    if (URL.canParse(base_url) && new URL(base_url).hostname === UNLIMITED_HOST)
      return [name, 'fixed'] as const
    const inFile = isObject(given.upstreams) ? given.upstreams[name] : undefined
    const isSet =
      (isObject(inFile) && inFile.max_concurrency !== undefined) ||
      (name === OPENAI && Boolean(env.OPENAI_MAX_CONCURRENCY))
    return [name, isSet ? 'explicit' : 'unknown'] as const
  })
  return new Map(entries)
}
