/** The HTTP side of `parley listen`: reads what is sent, refuses what is no callback, and answers as it is told to. */
import { isUtf8 } from 'node:buffer'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { isDeeperThan } from '../../http/json-body.ts'
import type { Delivery } from './delivery.ts'
import type { Verifier } from './verify.ts'

/** A callback holds at most an answer of 16 MiB and the payload of a batch's body. */
const MAX_BODY_BYTES = 64 * 1024 * 1024
/** Deeper JSON than any callback's could not be shown. */
const MAX_DEPTH = 1000
/** The last webhook-ids that are remembered. */
const REMEMBERED_IDS = 100_000
const REQUEST_MS = 60_000

export interface Failing {
  /** What is answered instead of 200. */
  readonly status: number
  /** How many callbacks get it, from the first; Infinity for all. */
  readonly first: number
  /** Sent as Retry-After beside it. */
  readonly retryAfterS: number | null
}

export interface ReceiverOptions {
  readonly verifier: Verifier
  readonly failing: Failing
  readonly onArrival: (arrival: Delivery) => void
  /** Something came that is no callback. */
  readonly onRefusal: (refusal: Refusal & { readonly method: string; readonly path: string }) => void
}

export interface Refusal {
  readonly status: number
  readonly why: string
}

export function createReceiver(options: ReceiverOptions): Server {
  const seen = new SeenIds()
  let callbacks = 0
  const answerCallback = async (request: IncomingMessage, response: ServerResponse) => {
    const atMs = Date.now()
    const { method = '', url: path = '/', headers } = request
    const read = headProblem(request) ?? (await readJson(request))
    if (!Buffer.isBuffer(read)) {
      options.onRefusal({ ...read, method, path })
      return refuse(response, read)
    }
    const webhookId = typeof headers['webhook-id'] === 'string' ? headers['webhook-id'] : null
    callbacks += 1
    const fails = callbacks <= options.failing.first
    const before = webhookId === null ? 0 : seen.count(webhookId)
    const verdict = await options.verifier.verdict(headers, read.toString('utf8'))
    const answered = fails ? options.failing.status : verdict.kind === 'unverified' ? 401 : 200
    options.onArrival({ atMs, path, webhookId, verdict, body: read, before, answered })
    const { retryAfterS } = options.failing
    if (fails && retryAfterS !== null) response.setHeader('retry-after', String(retryAfterS))
    const says = fails ? 'parley listen was told to answer so' : verdict.kind
    response.writeHead(answered, { 'content-type': 'text/plain' }).end(`${says}\n`)
  }
  const server = createServer({ requestTimeout: REQUEST_MS }, (request, response) => {
    // A sender that goes away in the middle is no business of the next one.
    response.on('error', () => {})
    answerCallback(request, response).catch((error: Error) => {
      options.onRefusal({
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

function headProblem({ method, headers }: IncomingMessage): Refusal | null {
  if (method !== 'POST') return { status: 405, why: 'callbacks come by POST' }
  const type = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/json') return { status: 415, why: 'Content-Type must be application/json' }
  return null
}

/** The raw bytes: they are what is signed. They are known to be a JSON object. */
async function readJson(request: IncomingMessage): Promise<Buffer | Refusal> {
  const tooLong = { status: 413, why: `the body is longer than ${MAX_BODY_BYTES} bytes` }
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return tooLong
  const chunks: Buffer[] = []
  let bytes = 0
  // Not destroyed on leaving, so that the refusal can still be sent.
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
  if (isDeeperThan(body, MAX_DEPTH)) return `the body is nested more than ${MAX_DEPTH} levels deep`
  try {
    const value: unknown = JSON.parse(body.toString('utf8'))
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? null : 'the body is not a JSON object'
  } catch (error) {
    return `the body is not JSON: ${(error as Error).message}`
  }
}

/** The connection is given up, since what is left of the body was not read. */
function refuse(response: ServerResponse, { status, why }: Refusal): void {
  if (status === 405) response.setHeader('allow', 'POST')
  response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' }).end(`${why}\n`)
}

/** How often each webhook-id came, the longest unseen forgotten first. */
class SeenIds {
  readonly #counts = new Map<string, number>()

  /** How often it came before; this time counts from now on. */
  count(id: string): number {
    const before = this.#counts.get(id) ?? 0
    this.#counts.delete(id)
    this.#counts.set(id, before + 1)
    const [oldest] = this.#counts.keys()
    if (this.#counts.size > REMEMBERED_IDS && oldest !== undefined) this.#counts.delete(oldest)
    return before
  }
}
