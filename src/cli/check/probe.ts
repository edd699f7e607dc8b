/**
 * Sends one request of `parley check` to a model server, and interprets its response. Nothing in a response is trusted.
 * Completion requests cost nothing, because they are invalid.
 */

import { isIP } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { Agent, request } from 'undici'
import type { UpstreamAccess } from '../../config/upstream-access.ts'
import { isObject, parseIfJson } from '../../json-object.ts'
import { requestHeaders, trustedCertificates } from '../../upstreams/build-request.ts'
import { connectionFault, failureKind } from '../../upstreams/failure-kinds.ts'
import type { Mask } from '../../upstreams/mask.ts'
import { readFailure } from '../../upstreams/read-completion.ts'

/** Limits the connection, the time until a response starts, and pauses in the response. */
export const PROBE_TIMEOUT_MS = 5_000
/** The rest of a longer response is not read. The longest known list of models, OpenRouter's, is smaller than a megabyte. */
const MAX_BODY_BYTES = 8 * 1024 * 1024

export interface Response {
  readonly kind: 'response'
  readonly status: number
  /** `text` is the unchanged body, and `json` is the parsed one. `json` is undefined if the body is not JSON. */
  readonly text: string
  readonly json: unknown
  /** The check does not follow redirects, because calls of jobs do not follow them either. */
  readonly location: string | null
  readonly ms: number
}

export interface Failure {
  readonly kind: 'failed'
  /** `protocol` means that the response is not HTTP, and `timeout` that it is missing. */
  readonly fault: 'dns' | 'tls' | 'connection' | 'timeout' | 'protocol'
  readonly code: string
}

export type Probed = Response | Failure

export interface ProbeOptions {
  readonly access: UpstreamAccess
  readonly timeoutMs: number
  /** The `user-agent` header shows in the server's log that the request is not a call of a job. */
  readonly agent: 'parley-check' | 'parley-start'
  /** This JSON value is sent by POST. Without a body, the request is a GET. */
  readonly body?: unknown
  /** If the signal aborts the request, the result is a failure. */
  readonly signal?: AbortSignal
  /** The request carries neither key nor headers, and accepts any certificate. It only finds out what the port speaks. */
  readonly anonymous?: true
}

/** Never rejects, because a failed request is a result. */
export async function probe(url: URL, options: ProbeOptions): Promise<Probed> {
  const { access, timeoutMs, agent, body, signal, anonymous } = options
  const dispatcher = new Agent({
    allowH2: false,
    connect: {
      timeout: timeoutMs,
      ...(anonymous ? { rejectUnauthorized: false } : trustedCertificates(access.ca)),
    },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
  })
  const limit = AbortSignal.timeout(3 * timeoutMs)
  const startedAtMs = performance.now()
  try {
    const response = await request(url, {
      dispatcher,
      method: body === undefined ? 'GET' : 'POST',
      headers: anonymous
        ? []
        : requestHeaders('', { ...access, headers: { 'user-agent': agent, ...access.headers } }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: signal === undefined ? limit : AbortSignal.any([limit, signal]),
    })
    const text = await readText(response.body)
    const ms = performance.now() - startedAtMs
    const { location } = response.headers
    return {
      kind: 'response',
      status: response.statusCode,
      text,
      json: parseIfJson(text),
      location: typeof location === 'string' ? location : null,
      ms,
    }
  } catch (error) {
    return failureOf(error)
  } finally {
    await dispatcher.destroy()
  }
}

/** Any certificate is accepted, because only the handshake matters. */
export function speaksTls({ hostname, port, protocol }: URL, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const host = hostname.replace(/^\[|\]$/g, '')
    const socket: TLSSocket = connect({
      host,
      port: Number(port || (protocol === 'https:' ? 443 : 80)),
      rejectUnauthorized: false,
      ...(isIP(host) === 0 && { servername: host }),
      timeout: timeoutMs,
    })
    const end = (speaks: boolean) => {
      socket.destroy()
      resolve(speaks)
    }
    socket.once('secureConnect', () => end(true))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
    socket.once('close', () => end(false))
  })
}

async function readText(body: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of body) {
    pieces.push(piece)
    bytes += piece.length
    if (bytes > MAX_BODY_BYTES) break
  }
  return Buffer.concat(pieces).toString('utf8')
}

function failureOf(error: unknown): Failure {
  const { code: given, name } = error as { readonly code?: unknown; readonly name?: unknown }
  const code = typeof given === 'string' ? given : String(name)
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') {
    return { kind: 'failed', fault: 'connection', code }
  }
  if (/TIMEOUT|TimeoutError|AbortError/.test(code) && connectionFault(code) !== 'dns') {
    return { kind: 'failed', fault: 'timeout', code }
  }
  if (/^HPE_|^HTTPParserError$/.test(code)) return { kind: 'failed', fault: 'protocol', code }
  return { kind: 'failed', fault: connectionFault(code), code }
}

/** The request cannot be billed, because its messages are not an array. */
export function invalidRequest(model: string): object {
  return { model, messages: 'This request of `parley check` is invalid on purpose.', max_tokens: 0 }
}

export type Verdict =
  /** The endpoint exists and accepts the key. */
  | 'accepted'
  | 'key rejected'
  | 'no credit'
  | 'model unknown'
  | 'not found'
  /** The server has an error, for example because it is still loading the model. */
  | 'failing'
  /** The response is not from a completion endpoint. */
  | 'foreign'

export function verdictOf({ status, text, json }: Response): Verdict {
  if (status === 401 || status === 403 || isKeyError(status, text)) return 'key rejected'
  if (status === 402 || status === 412 || (status === 429 && isOfOperator(status, text))) return 'no credit'
  // LM Studio responds with 200 to unknown paths.
  if (/unexpected endpoint/i.test(text)) return 'not found'
  if (status === 404)
    return isObject(json) && /model|deployment/i.test(wordsOf(json)) ? 'model unknown' : 'not found'
  if (status === 405 || status === 501) return 'not found'
  if (status === 502 || status === 503 || status === 504) return 'failing'
  if (!isObject(json) && !Array.isArray(json)) return status < 500 ? 'foreign' : 'failing'
  // llama.cpp responds to an invalid request with 500 and a reason.
  if (status >= 500 && wordsOf(json) === '') return 'failing'
  if (status < 400) return isObject(json) && ('choices' in json || 'error' in json) ? 'accepted' : 'foreign'
  return isModelError(status, wordsOf(json)) ? 'model unknown' : 'accepted'
}

/** Returns true if jobs would wait until an operator acts, for example because the key is wrong. */
function isOfOperator(status: number, text: string): boolean {
  const reply = readFailure(status, text, null, (message) => message)
  return reply.kind === 'error' && failureKind(reply) === 'misconfigured'
}

/** The messages of `invalidRequest` are wrong, so a server that complains about them has read the request. */
export function namesMistake({ json }: Response): boolean {
  return /\bmessages\b/i.test(wordsOf(json))
}

export interface ModelList {
  readonly ids: readonly string[]
  /** The list is incomplete if the server has more pages of models. */
  readonly isComplete: boolean
  /** llama.cpp serves its one model under any name. */
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

/** Ollama adds the tag `latest`, Google the folder `models/`, and OpenRouter omits variants such as `:free`. */
export function lists({ ids }: ModelList, model: string): boolean {
  const variant = /^(.+\/.+):(?:free|online|nitro|floor|exacto|extended|thinking|beta)$/.exec(model)?.[1]
  const names = [model, `${model}:latest`, `models/${model}`, ...(variant === undefined ? [] : [variant])]
  return names.some((name) => ids.includes(name))
}

/** Secrets are removed from the message. Null means that the response has none. */
export function messageOf({ status, text }: Response, mask: Mask): string | null {
  const reply = readFailure(status, text, null, mask)
  if (reply.kind === 'answer' || /^The model server responded with \d+\.$/.test(reply.message)) return null
  return reply.message
}

/** Google responds with 400 for a wrong key. LM Studio and others have no error code, so their messages are matched. */
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

/** Returns only the parts that explain the error, because other parts may repeat the request. */
function wordsOf(json: unknown): string {
  if (Array.isArray(json)) return wordsOf(json[0])
  if (!isObject(json)) return ''
  const { error } = json
  const parts = isObject(error) ? [error.code, error.type, error.message] : [error, json.code, json.message]
  return [...parts, json.detail].filter((part) => typeof part === 'string').join(' ')
}
