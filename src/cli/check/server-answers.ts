/**
 * Interprets the free responses of a model server that `parley check` uses: to `GET /models`, and to a completion request
 * that is invalid on purpose. Nothing in them is trusted. Pure.
 */
import type { Mask } from '../../upstreams/mask.ts'
import { readFailure } from '../../upstreams/read-completion.ts'
import type { Response } from './probe.ts'

/** The body of a completion request that is invalid on purpose. Its messages are not an array, so nothing can be billed. */
export function invalidRequest(model: string): object {
  return { model, messages: 'This request of `parley check` is invalid on purpose.', max_tokens: 0 }
}

export type Verdict =
  /** The endpoint exists, and accepts the key. */
  | 'accepted'
  | 'key rejected'
  | 'no credit'
  | 'model unknown'
  /** The endpoint does not exist. */
  | 'not found'
  /** A server error, for example because the model is still loading. */
  | 'failing'
  /** The response is not from a completion endpoint. */
  | 'foreign'

export function verdictOf({ status, text, json }: Response): Verdict {
  if (status === 401 || status === 403 || isKeyError(status, text)) return 'key rejected'
  if (status === 402 || (status === 429 && /insufficient_quota/.test(text))) return 'no credit'
  // LM Studio answers 200 to a path that it does not know.
  if (/unexpected endpoint/i.test(text)) return 'not found'
  if (status === 404)
    return isObject(json) && /model|deployment/i.test(wordsOf(json)) ? 'model unknown' : 'not found'
  if (status === 405 || status === 501) return 'not found'
  if (status === 502 || status === 503 || status === 504) return 'failing'
  if (!isObject(json) && !Array.isArray(json)) return status < 500 ? 'foreign' : 'failing'
  // llama.cpp responds to an invalid request with 500 and the reason.
  if (status >= 500 && wordsOf(json) === '') return 'failing'
  if (status < 400) return isObject(json) && ('choices' in json || 'error' in json) ? 'accepted' : 'foreign'
  return isModelError(status, wordsOf(json)) ? 'model unknown' : 'accepted'
}

/** Whether the response to the invalid request is about its messages. */
export function namesMistake({ json }: Response): boolean {
  return /\bmessages\b/i.test(wordsOf(json))
}

/** The identifiers in a list of models; null if it is not one. */
export interface ModelList {
  readonly ids: readonly string[]
  /** False if there are more pages. */
  readonly isComplete: boolean
  /** Whether the server is llama.cpp, which serves one model regardless of the name in a request. */
  readonly ignoresNames: boolean
}

export function modelListOf({ status, json }: Response): ModelList | null {
  if (status >= 300 || !isObject(json) || !Array.isArray(json.data)) return null
  const entries: readonly unknown[] = json.data
  const ids = entries.flatMap((entry) => (isObject(entry) && typeof entry.id === 'string' ? [entry.id] : []))
  if (ids.length < entries.length) return null
  const isLlamaCpp = entries.length === 1 && isObject(entries[0]) && entries[0].owned_by === 'llamacpp'
  return { ids, isComplete: json.has_more !== true, ignoresNames: isLlamaCpp }
}

/** Ollama omits the tag `latest`, Google the folder, and OpenRouter has variants that are not in its list. */
export function lists({ ids }: ModelList, model: string): boolean {
  const variant = /^(.+\/.+):(?:free|online|nitro|floor|exacto|extended|thinking|beta)$/.exec(model)?.[1]
  const names = [model, `${model}:latest`, `models/${model}`, ...(variant === undefined ? [] : [variant])]
  return names.some((name) => ids.includes(name))
}

/** The server's own words for an error, masked; null if it sent none. */
export function messageOf({ status, text }: Response, mask: Mask): string | null {
  const reply = readFailure(status, text, null, mask)
  if (reply.kind === 'answer' || /^The model server responded with \d+\.$/.test(reply.message)) return null
  return reply.message
}

/**
 * Google responds with 400 for a wrong key. Messages of LM Studio and others are matched by text, because they have no code.
 */
function isKeyError(status: number, text: string): boolean {
  if (status !== 400) return false
  return /API_KEY_INVALID|(?:invalid|incorrect|missing|wrong|not valid)[^.]{0,30}\bapi[ _-]?key|api[ _-]?key[^.]{0,30}(?:invalid|incorrect|missing|required|not valid)/i.test(
    text,
  )
}

function isModelError(status: number, words: string): boolean {
  if (status >= 500) return false
  return /model_not_found|invalid model name|model[^.]{0,80}(?:not found|does not exist|not exist\b|unknown)|unknown model/i.test(
    words,
  )
}

/** The parts of an error that explain the problem, without the parts of the request that the server repeats. */
function wordsOf(json: unknown): string {
  if (Array.isArray(json)) return wordsOf(json[0])
  if (!isObject(json)) return ''
  const { error } = json
  const parts = isObject(error) ? [error.code, error.type, error.message] : [error, json.code, json.message]
  return [...parts, json.detail].filter((part) => typeof part === 'string').join(' ')
}

type Fields = Readonly<Record<string, unknown>>

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
