/**
 * What the answers of a model server mean that `parley check` gets for free: to `GET /models`, and to a completion request
 * that is invalid on purpose. Nothing in them is trusted. Pure.
 */
import { type Mask, readFailure } from '../../upstreams/read-completion.ts'
import type { Response } from './probe.ts'

/** What a completion request that is invalid on purpose says. Its messages are not an array, so nothing can be billed. */
export function invalidRequest(model: string): object {
  return { model, messages: 'This request of `parley check` is invalid on purpose.', max_tokens: 0 }
}

export type Verdict =
  /** There is such an endpoint, and it took the key. */
  | 'accepted'
  | 'key rejected'
  | 'no credit'
  | 'model unknown'
  /** There is no such endpoint. */
  | 'not found'
  /** Server trouble, such as a model that is still loading. */
  | 'failing'
  /** Something else than a completion endpoint answers. */
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
  // llama.cpp answers 500 to a request that is invalid, and says why.
  if (status >= 500 && wordsOf(json) === '') return 'failing'
  if (status < 400) return isObject(json) && ('choices' in json || 'error' in json) ? 'accepted' : 'foreign'
  return isModelError(status, wordsOf(json)) ? 'model unknown' : 'accepted'
}

/** Whether the answer to the request that is invalid on purpose is about its messages. */
export function namesMistake({ json }: Response): boolean {
  return /\bmessages\b/i.test(wordsOf(json))
}

/** The identifiers in a list of models; null if it is not one. */
export interface ModelList {
  readonly ids: readonly string[]
  /** False if there are more pages. */
  readonly isComplete: boolean
  /** Whether llama.cpp answers, which serves one model whatever name a request has. */
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

/** Ollama leaves out the tag `latest`, Google the folder, and OpenRouter has variants that its list does not have. */
export function lists({ ids }: ModelList, model: string): boolean {
  const variant = /^(.+\/.+):(?:free|online|nitro|floor|exacto|extended|thinking|beta)$/.exec(model)?.[1]
  const names = [model, `${model}:latest`, `models/${model}`, ...(variant === undefined ? [] : [variant])]
  return names.some((name) => ids.includes(name))
}

/** The server's own words for an error, masked; null if it sent none. */
export function messageOf({ status, text }: Response, mask: Mask): string | null {
  const reply = readFailure(status, text, null, mask)
  if (reply.kind === 'answer' || /^The model server answered \d+\.$/.test(reply.message)) return null
  return reply.message
}

/** Google answers 400 for a wrong key, and LM Studio's and others' words are matched for want of a code. */
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

/** The parts of an error that say what is wrong, without what the server repeats of the request. */
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
