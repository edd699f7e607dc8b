/**
 * Runs the HTTP server of `parley listen`, which reads callbacks, rejects other requests, and responds as the options require.
 * Also formats callbacks for printing.
 */

import { isUtf8 } from 'node:buffer'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { isObject } from '../../json-object.ts'
import { parseExactly } from '../../json-text/read-json.ts'
import { isDeeperThan } from '../../json-text/scan-json.ts'
import type { Verdict, Verifier } from './verify.ts'

/** Longer bodies are rejected. A callback has an answer of at most 16 MiB, and a payload that fits into a batch request. */
const MAX_BODY_BYTES = 64 * 1024 * 1024
/** Bodies with deeper nesting are rejected, because printing them could overflow the stack. No callback is nested so deeply. */
const MAX_DEPTH = 1000
const MAX_REMEMBERED_IDS = 100_000
const REQUEST_MS = 60_000

interface SimulatedFailures {
  readonly status: number
  /** This many callbacks fail at the beginning. Infinity means all. */
  readonly first: number
  readonly retryAfterS: number | null
}

export interface ReceiverOptions {
  readonly verifier: Verifier
  readonly failures: SimulatedFailures
  readonly onDelivery: (delivery: Delivery) => void
  readonly onRejection: (rejection: Rejection & { readonly method: string; readonly path: string }) => void
}

export interface Rejection {
  readonly status: number
  readonly why: string
}

export function createReceiver(options: ReceiverOptions): Server {
  const seen = new SeenIds()
  let callbacks = 0
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const receivedAtMs = Date.now()
    const { method = '', url: path = '/', headers } = request
    const read = headProblem(request) ?? (await readJson(request))
    if (!Buffer.isBuffer(read)) {
      options.onRejection({ ...read, method, path })
      return reject(response, read)
    }
    const webhookId = typeof headers['webhook-id'] === 'string' ? headers['webhook-id'] : null
    callbacks += 1
    const fails = callbacks <= options.failures.first
    const earlier = webhookId === null ? 0 : seen.count(webhookId)
    const verdict = await options.verifier.verdict(headers, read.toString('utf8'))
    const responseStatus = fails ? options.failures.status : verdict.kind === 'unverified' ? 401 : 200
    options.onDelivery({ receivedAtMs, path, webhookId, verdict, body: read, earlier, responseStatus })
    const { retryAfterS } = options.failures
    if (fails && retryAfterS !== null) response.setHeader('retry-after', String(retryAfterS))
    const text = fails ? 'parley listen simulates a failure' : verdict.kind
    response.writeHead(responseStatus, { 'content-type': 'text/plain' }).end(`${text}\n`)
  }
  const server = createServer({ requestTimeout: REQUEST_MS }, (request, response) => {
    // If the client disconnects during the response, nobody needs the error.
    response.on('error', () => {})
    respond(request, response).catch((error: Error) => {
      options.onRejection({
        status: 400,
        why: error.message,
        method: request.method ?? '',
        path: request.url ?? '',
      })
      response.destroy()
    })
  })
  return server
}

function headProblem({ method, headers }: IncomingMessage): Rejection | null {
  if (method !== 'POST') return { status: 405, why: 'callbacks use POST' }
  const type = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/json') return { status: 415, why: 'Content-Type must be application/json' }
  return null
}

/** Returns the raw bytes of the body, because the signature covers them. The body must be a JSON object. */
async function readJson(request: IncomingMessage): Promise<Buffer | Rejection> {
  const tooLong = { status: 413, why: `the body is longer than ${MAX_BODY_BYTES} bytes` }
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return tooLong
  const chunks: Buffer[] = []
  let bytes = 0
  // The response uses the connection of the request, so leaving the loop early must not destroy the request.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    chunks.push(chunk as Buffer)
    bytes += (chunk as Buffer).length
    if (bytes > MAX_BODY_BYTES) return tooLong
  }
  const body = Buffer.concat(chunks)
  const why = bodyProblem(body)
  return why === null ? body : { status: 400, why }
}

function bodyProblem(body: Buffer): string | null {
  if (!isUtf8(body)) return 'the body is not UTF-8'
  const text = body.toString('utf8')
  if (isDeeperThan(text, MAX_DEPTH)) return `the body is nested more than ${MAX_DEPTH} levels deep`
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? null : 'the body is not a JSON object'
  } catch (error) {
    return `the body is not JSON: ${(error as Error).message}`
  }
}

/** Closes the connection, because part of the body may be unread. */
function reject(response: ServerResponse, { status, why }: Rejection): void {
  if (status === 405) response.setHeader('allow', 'POST')
  response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' }).end(`${why}\n`)
}

/** Counts how often each webhook-id was received. At the limit, the ID that was last seen longest ago is forgotten. */
class SeenIds {
  readonly #counts = new Map<string, number>()

  /** Returns how many earlier deliveries had the same webhook-id. */
  count(id: string): number {
    const before = this.#counts.get(id) ?? 0
    this.#counts.delete(id)
    this.#counts.set(id, before + 1)
    const [oldest] = this.#counts.keys()
    if (this.#counts.size > MAX_REMEMBERED_IDS && oldest !== undefined) this.#counts.delete(oldest)
    return before
  }
}

export interface Delivery {
  readonly receivedAtMs: number
  readonly path: string
  readonly webhookId: string | null
  readonly verdict: Verdict
  readonly body: Buffer
  readonly earlier: number
  readonly responseStatus: number
}

const MAX_CHARACTERS = 200

/** The body is inserted as text, because parsing it would lose digits of large numbers. */
export function deliveryJson(delivery: Delivery): string {
  const { receivedAtMs, path, webhookId, verdict, body, earlier, responseStatus } = delivery
  const fields = {
    received_at: receivedAtMs / 1000,
    verified: verdict.kind === 'verified',
    why: verdict.kind === 'verified' ? null : verdict.why,
    webhook_id: webhookId,
    times: earlier + 1,
    duplicate: earlier > 0,
    path,
    answered: responseStatus,
  }
  // In valid JSON, line ends can only be between tokens, so they may become spaces.
  const callback = body
    .toString('utf8')
    .trim()
    .replace(/[\r\n]+/g, ' ')
  return `${JSON.stringify(fields).slice(0, -1)},"callback":${callback}}`
}

export function deliveryText(delivery: Delivery): string {
  const { receivedAtMs, path, verdict, earlier, responseStatus } = delivery
  const callback = parseExactly(delivery.body.toString('utf8')) as Readonly<Record<string, unknown>>
  const { status, job_id, result, error, callback_payload } = callback
  const isCallback = typeof job_id === 'string' && typeof status === 'string'
  const what = isCallback ? `job ${shown(job_id)} ${shown(status)}` : (eventText(callback) ?? NEITHER)
  const title = verdict.kind === 'verified' ? 'verified' : 'NOT VERIFIED'
  const lines: [string, string][] = []
  if (verdict.kind !== 'verified') lines.push(['why', verdict.why])
  if (earlier > 0) {
    const times = earlier === 1 ? 'once' : `${earlier} times`
    lines.push(['duplicate', `this webhook-id was received ${times} before`])
  }
  if (what === NEITHER) lines.push(['body', shownJson(callback)])
  else if (!isCallback) lines.push(['event', shownJson(callback)])
  else if (error !== null && error !== undefined) lines.push(['error', shownJson(error)])
  else lines.push(['result', shownJson(contentOf(result))])
  if (callback_payload !== undefined) lines.push(['payload', shownJson(callback_payload)])
  lines.push(['answered', `${responseStatus} to POST ${shown(path)}`])
  const indented = lines.map(([name, value]) => `          ${name.padEnd(10)}${value}`)
  return [`${timeOf(receivedAtMs)}  ${title}: ${what}`, ...indented].join('\n')
}

const NEITHER = 'not a Parley callback: job_id or status is missing'

function eventText({ object, type, data }: Readonly<Record<string, unknown>>): string | null {
  const id = typeof data === 'object' && data !== null && 'id' in data ? data.id : null
  if (object !== 'event' || typeof type !== 'string' || typeof id !== 'string') return null
  return `${shown(type)}: ${shown(id)}`
}

/** The time is in the local time zone. */
export function timeOf(atMs: number): string {
  const at = new Date(atMs)
  return [at.getHours(), at.getMinutes(), at.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':')
}

function contentOf(result: unknown): unknown {
  const isWrapped = typeof result === 'object' && result !== null && 'response_content' in result
  return isWrapped ? result.response_content : result
}

function shownJson(value: unknown): string {
  return shown(JSON.stringify(value) ?? 'null')
}

/** Truncates long text, and escapes characters that would move a terminal's cursor or change the writing direction. */
export function shown(text: string): string {
  const characters = text.length > MAX_CHARACTERS ? [...text.slice(0, 2 * MAX_CHARACTERS)] : null
  const start = characters === null ? text : characters.slice(0, MAX_CHARACTERS).join('')
  const safe = start.replace(
    /[\p{Cc}\p{Bidi_Control}\p{Surrogate}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return start.length < text.length ? `${safe}… (${text.length} characters; --json shows everything)` : safe
}
