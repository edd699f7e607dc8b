/**
 * A proxy between callers and a server. Like the server, it limits reads of jobs, but in windows of seconds instead of a
 * minute, so that a test sees several windows.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { TestContext } from 'node:test'

export interface ReadGate {
  readonly url: string
  /** How many reads of jobs have arrived, and how many of them were rejected with 429. */
  readonly reads: () => number
  readonly refused: () => number
  /** How many reads came before the time in an earlier Retry-After was over. */
  readonly earlyAfterRefusal: () => number
}

export interface GateOptions {
  readonly reads: number
  readonly windowS: number
  /** How many of the first reads are rejected, as if another caller had used up the limit. Their Retry-After is 1. */
  readonly refuseFirst?: number
}

export async function startReadGate(t: TestContext, target: string, options: GateOptions): Promise<ReadGate> {
  const gate = new Gate(target, options)
  const server = createServer((request, response) => {
    gate.pass(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    reads: () => gate.reads,
    refused: () => gate.refused,
    earlyAfterRefusal: () => gate.early,
  }
}

class Gate {
  reads = 0
  refused = 0
  /** How many reads came before the end of a Retry-After, without those that were already in progress. */
  early = 0
  readonly #target: string
  readonly #options: GateOptions
  #left: number
  #endsMs = 0
  #closedUntilMs = 0
  #readsInProgress = 0

  constructor(target: string, options: GateOptions) {
    this.#target = target
    this.#options = options
    this.#left = options.reads
  }

  async pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const isRead = request.method === 'GET' && /\/messages[/?]/.test(request.url ?? '')
    if (isRead && this.#refuses(response)) return
    const body = await buffer(request)
    this.#readsInProgress += isRead ? 1 : 0
    const answer = await fetch(this.#target + request.url, {
      method: request.method ?? 'GET',
      headers: headersOf(request),
      ...(body.length > 0 && { body }),
    })
    const text = await answer.text()
    this.#readsInProgress -= isRead ? 1 : 0
    response.writeHead(answer.status, { 'content-type': 'application/json', ...(isRead && this.#said()) })
    response.end(request.url === '/api/v1/me' ? this.#limited(text) : text)
  }

  #refuses(response: ServerResponse): boolean {
    const nowMs = performance.now()
    if (nowMs >= this.#endsMs) {
      this.#left = this.#options.reads
      this.#endsMs = nowMs + this.#options.windowS * 1000
    }
    this.reads += 1
    if (nowMs < this.#closedUntilMs) this.early += 1
    const refusesAnyway = this.reads <= (this.#options.refuseFirst ?? 0)
    if (this.#left > 0 && !refusesAnyway) {
      this.#left -= 1
      return false
    }
    this.refused += 1
    if (this.#readsInProgress === 0) this.#closedUntilMs = nowMs + 1000
    const body = { success: false, message: 'Rate limit exceeded.', details: 'Try again in 1 s.' }
    response.writeHead(429, {
      'content-type': 'application/json',
      'retry-after': '1',
      ...this.#said(),
      'ratelimit-remaining': '0',
      'ratelimit-reset': '1',
    })
    response.end(JSON.stringify(body))
    return true
  }

  #resetS(): number {
    return Math.max(0, Math.ceil((this.#endsMs - performance.now()) / 1000))
  }

  #said(): Record<string, string> {
    return {
      'ratelimit-limit': String(this.#options.reads),
      'ratelimit-remaining': String(this.#left),
      'ratelimit-reset': String(this.#resetS()),
    }
  }

  #limited(text: string): string {
    const me = JSON.parse(text) as { data: { limits: object; reads: object } }
    me.data.limits = { ...me.data.limits, reads_per_minute: this.#options.reads }
    me.data.reads = { remaining: this.#left, resets_in_seconds: this.#resetS() }
    return JSON.stringify(me)
  }
}

function headersOf({ headers }: IncomingMessage): Record<string, string> {
  const names = ['x-api-key', 'content-type', 'idempotency-key']
  return Object.fromEntries(names.flatMap((name) => (headers[name] ? [[name, String(headers[name])]] : [])))
}
