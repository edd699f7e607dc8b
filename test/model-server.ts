/**
 * Runs a model server for tests: real HTTP on a free port of 127.0.0.1. The server records every request, answers each with a
 * valid chat completion, and misbehaves if a script says so.
 *
 *     const server = await startModelServer({}, t)
 *     // … point an upstream at server.baseUrl …
 *     server.requests[0]?.body.messages                 // what was sent
 *
 *     // Per request: fail once, then answer.
 *     server.script = (_request, index) => (index === 0 ? reply.status(503) : reply.text('Here I am.'))
 *
 *     server.script = () => reply.stall()               // hold the answers back …
 *     await server.received(3)                          // … until three requests have arrived, without sleeping,
 *     server.release()                                  // and then answer them all
 *
 *     await server.requests[0]?.ended                   // 'answered', or 'cut' when the client closed the connection
 *
 *     await server.kill()                               // connections are reset and new ones refused, …
 *     await server.start()                              // … until it listens on the same port again
 *
 * A reply is a function of the request and its response, so a test may write its own. `test/model-servers/` has scripts that
 * behave as real model servers do.
 */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type {
  ChatCompletion,
  ChatCompletionCreateParamsNonStreaming,
} from 'openai/resources/chat/completions'
import type { Lifetime } from './parley.ts'

export type ChatRequest = ChatCompletionCreateParamsNonStreaming

export interface Received {
  /** Counts from 0 at the server's start. */
  readonly index: number
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** `text` is the body as received. `body` is an empty object if the request has no body, such as `GET /models`. */
  readonly text: string
  readonly body: ChatRequest
  /** `answered` once the response is sent. `cut` if the connection was closed before. */
  readonly ended: Promise<'answered' | 'cut'>
  readonly sentBytes: () => number
}

/** The function may return before it has answered, and may never answer. */
export type Reply = (request: Received, response: ServerResponse, server: ModelServerForTests) => void
/** If a script returns undefined, the last user message is echoed, and `GET /models` returns a list of one model. */
export type Script = (request: Received, index: number) => Reply | undefined

export interface ModelServerForTests {
  /** An upstream with this `base_url` calls the server. */
  readonly baseUrl: string
  readonly requests: readonly Received[]
  /** Each of these texts says why a request was not valid HTTP and got a 400. */
  readonly connectionErrors: readonly string[]
  /** By default, each request is answered with its last user message. */
  script: Script
  completions(): readonly Received[]
  /** Resolves when `count` requests have arrived since the start, including their bodies. */
  received(count: number): Promise<void>
  /** `running` counts the requests that have no complete response yet. `mostRunning` returns the maximum so far. */
  running(): number
  mostRunning(): number
  /** Answers all requests that are stalled now. */
  release(): void
  releaseNext(): void
  connections(): number
  /** Resets every connection and refuses new ones, as the operating system does after a process was killed. */
  kill(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>
}

export interface ModelServerOptions {
  readonly script?: Script
  /** If false, requests are not recorded, which saves memory in runs of many thousands. */
  readonly keep?: boolean
}

export async function startModelServer(
  options: ModelServerOptions = {},
  t?: Lifetime,
): Promise<ModelServerForTests> {
  const server = new RecordingServer(options)
  await server.start()
  t?.after(() => server.close())
  return server
}

export const reply = {
  /** Echoes the last user message. `usage` counts characters, so that tests can predict the numbers. */
  echo: (): Reply => (request, response) => {
    sendJson(response, 200, chatCompletion(request.body, { content: echoOf(request.body) }))
  },
  text: (content: string): Reply => completion({ content }),
  truncated: (content: string | null): Reply => completion({ content, finish: 'length' }),
  models: (...ids: readonly string[]): Reply => {
    return (_request, response) => sendJson(response, 200, modelList(ids))
  },
  json: (value: unknown): Reply => completion({ content: JSON.stringify(value) }),
  refusal: (refusal = 'I cannot help with that.'): Reply => completion({ content: null, refusal }),
  contentFilter: (content = ''): Reply => completion({ content, finish: 'content_filter' }),
  /** Without a body, the response has an error object as OpenAI sends it. */
  status:
    (status: number, extra: { headers?: Record<string, string>; body?: unknown } = {}): Reply =>
    (_request, response) => {
      const body = extra.body ?? { error: { message: `It answers ${status}.`, type: 'error', code: null } }
      for (const [name, value] of Object.entries(extra.headers ?? {})) response.setHeader(name, value)
      if (typeof body === 'string') response.writeHead(status).end(body)
      else sendJson(response, status, body)
    },
  /** Closes the connection without an answer, with a reset (RST). */
  reset: (): Reply => (_request, response) => {
    response.socket?.resetAndDestroy()
  },
  /** Sends the headers and half of an answer, then closes the connection with a reset (RST). */
  resetMidBody: (): Reply => (request, response) => {
    const text = JSON.stringify(chatCompletion(request.body, { content: 'half of it' }))
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
    response.write(text.slice(0, text.length / 2), () => response.socket?.resetAndDestroy())
  },
  stall:
    (then: Reply = reply.echo()): Reply =>
    (request, response, server) => {
      stalled(server).push(() => then(request, response, server))
    },
  after:
    (ms: number, then: Reply = reply.echo()): Reply =>
    (request, response, server) => {
      const timer = setTimeout(() => then(request, response, server), ms)
      response.once('close', () => clearTimeout(timer))
    },
  /**
   * Sends the headers of an answer and then a space every millisecond, forever. The spaces could be the start of valid JSON.
   */
  drip: (): Reply => (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const timer = setInterval(() => response.write(' '), 1)
    response.once('close', () => clearInterval(timer))
  },
  garbage: (text = '<html>It works!</html>'): Reply => rawly(text),
  notHttp: (): Reply => (_request, response) => {
    response.socket?.end('SSH-2.0-OpenSSH_9.9\r\n')
  },
  notACompletion: (value: unknown = { object: 'list', data: [] }): Reply => rawly(JSON.stringify(value)),
  /** Sends this many bytes, no faster than the client reads. With `declare`, the headers contain the length. */
  huge: (bytes: number, { declare = false } = {}): Reply => hugeReply(bytes, declare),
}

interface Content {
  readonly content: string | null
  readonly refusal?: string
  readonly finish?: ChatCompletion.Choice['finish_reason']
}

export function chatCompletion(request: ChatRequest, { content, refusal, finish }: Content): ChatCompletion {
  const input = request.messages.reduce((sum, message) => sum + String(message.content).length, 0)
  const output = (content ?? refusal ?? '').length
  return {
    id: 'chatcmpl-test',
    object: 'chat.completion',
    created: 1_767_323_045,
    model: request.model,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content, refusal: refusal ?? null },
        logprobs: null,
        finish_reason: finish ?? 'stop',
      },
    ],
    usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
  }
}

export function modelList(ids: readonly string[]): unknown {
  const data = ids.map((id) => ({ id, object: 'model', created: 1_767_323_045, owned_by: 'test' }))
  return { object: 'list', data }
}

export function echoOf(request: ChatRequest): string {
  const last = request.messages.findLast((message) => message.role === 'user')
  return `echo: ${String(last?.content ?? '')}`
}

function completion(content: Content): Reply {
  return (request, response) => sendJson(response, 200, chatCompletion(request.body, content))
}

export function isModelList({ method, path }: Received): boolean {
  return method === 'GET' && /\/models\/?(\?|$)/.test(path)
}

function usualReply(request: Received): Reply {
  if (isModelList(request)) return reply.models('a-model')
  return Array.isArray(request.body.messages) ? reply.echo() : reply.status(400)
}

function rawly(text: string): Reply {
  return (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(text)
  }
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  const text = JSON.stringify(value)
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}

function hugeReply(bytes: number, declare: boolean): Reply {
  return (request, response) => {
    const text = JSON.stringify(chatCompletion(request.body, { content: '#' }))
    const [head = '', tail = ''] = text.split('#')
    let left = bytes - head.length - tail.length
    response.writeHead(200, {
      'content-type': 'application/json',
      ...(declare ? { 'content-length': bytes } : {}),
    })
    response.write(head)
    const piece = Buffer.alloc(65_536, 'x')
    const more = () => {
      while (left > 0 && !response.destroyed) {
        const size = Math.min(left, piece.length)
        left -= size
        if (!response.write(piece.subarray(0, size))) {
          response.once('drain', more)
          return
        }
      }
      if (!response.destroyed) response.end(tail)
    }
    more()
  }
}

const stalledOf = new WeakMap<ModelServerForTests, (() => void)[]>()

function stalled(server: ModelServerForTests): (() => void)[] {
  const waiting = stalledOf.get(server) ?? []
  stalledOf.set(server, waiting)
  return waiting
}

class RecordingServer implements ModelServerForTests {
  baseUrl = ''
  readonly requests: Received[] = []
  readonly connectionErrors: string[] = []
  script: Script
  readonly #keep: boolean
  readonly #server = createServer((request, response) => this.#take(request, response))
  readonly #sockets = new Set<Socket>()
  #port = 0
  #count = 0
  #running = 0
  #mostRunning = 0
  #connections = 0
  #watchers: { readonly count: number; readonly resolve: () => void }[] = []

  constructor({ script, keep }: ModelServerOptions) {
    this.script = script ?? (() => undefined)
    this.#keep = keep ?? true
    this.#server.on('connection', (socket: Socket) => {
      this.#connections++
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    this.#server.on('clientError', (error: Error & { rawPacket?: Buffer }, socket) => {
      const { remotePort } = socket as Socket
      this.connectionErrors.push(
        `${error} port ${remotePort}: ${error.rawPacket?.toString('latin1').slice(0, 200)}`,
      )
      socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n')
    })
    // Idle connections of clients must stay open for the whole test.
    this.#server.keepAliveTimeout = 0
  }

  async start(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1')
    await once(this.#server, 'listening')
    this.#port = (this.#server.address() as AddressInfo).port
    this.baseUrl = `http://127.0.0.1:${this.#port}/v1`
  }

  async kill(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.#sockets) socket.resetAndDestroy()
    stalled(this).length = 0
    await closed
  }

  completions(): readonly Received[] {
    return this.requests.filter(({ method }) => method === 'POST')
  }

  received(count: number): Promise<void> {
    if (this.#count >= count) return Promise.resolve()
    return new Promise((resolve) => {
      this.#watchers.push({ count, resolve })
    })
  }

  running(): number {
    return this.#running
  }

  mostRunning(): number {
    return this.#mostRunning
  }

  connections(): number {
    return this.#connections
  }

  release(): void {
    for (const answer of stalled(this).splice(0)) answer()
  }

  releaseNext(): void {
    stalled(this).shift()?.()
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    // At its start, a Parley checks once whether its model servers respond. Tests count the calls of jobs, so that check is not
    // recorded.
    if (request.headers['user-agent'] === 'parley-start') {
      sendJson(response, 200, modelList(['a-model']))
      return
    }
    this.#running++
    this.#mostRunning = Math.max(this.#mostRunning, this.#running)
    const before = request.socket.bytesWritten
    const ended = new Promise<'answered' | 'cut'>((resolve) => {
      response.once('close', () => {
        this.#running--
        resolve(response.writableFinished ? 'answered' : 'cut')
      })
    })
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      const text = Buffer.concat(pieces).toString()
      const received: Received = {
        index: this.#count++,
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        text,
        body: JSON.parse(text === '' ? '{}' : text) as ChatRequest,
        ended,
        sentBytes: () => request.socket.bytesWritten - before,
      }
      if (this.#keep) this.requests.push(received)
      const answer = this.script(received, received.index) ?? usualReply(received)
      answer(received, response, this)
      this.#watchers = this.#watchers.filter(({ count, resolve }) => {
        if (this.#count >= count) resolve()
        return this.#count < count
      })
    })
  }
}
