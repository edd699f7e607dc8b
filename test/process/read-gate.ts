/**
 * Runs a proxy between callers and a server. Like the server, it limits reads of jobs, but in windows of seconds instead of a
 * minute, so that a test sees several windows.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import type { Lifetime } from '../parley.ts'
import { serveHttp } from './http-server.ts'

export interface ReadGate {
  readonly url: string
  readonly reads: () => number
  readonly refused: () => number
  /** Counts reads that came before the time in an earlier Retry-After was over. */
  readonly earlyAfterRefusal: () => number
}

export interface GateOptions {
  readonly reads: number
  readonly windowS: number
  /** This many of the first reads are rejected with a Retry-After of 1, as if another caller had used up the limit. */
  readonly refuseFirst?: number
}

export async function startReadGate(
  t: Lifetime,
  target: string,
  { reads: limit, windowS, refuseFirst = 0 }: GateOptions,
): Promise<ReadGate> {
  let [reads, refused, early, left] = [0, 0, 0, limit]
  let [endsMs, closedUntilMs, readsInProgress] = [0, 0, 0]
  const resetS = () => Math.max(0, Math.ceil((endsMs - performance.now()) / 1000))
  const limits = () => ({
    'ratelimit-limit': String(limit),
    'ratelimit-remaining': String(left),
    'ratelimit-reset': String(resetS()),
  })
  const refuses = (): boolean => {
    const nowMs = performance.now()
    if (nowMs >= endsMs) {
      left = limit
      endsMs = nowMs + windowS * 1000
    }
    reads += 1
    if (nowMs < closedUntilMs) early += 1
    if (left > 0 && reads > refuseFirst) {
      left -= 1
      return false
    }
    refused += 1
    // Reads that are already in progress cannot know of this Retry-After.
    if (readsInProgress === 0) closedUntilMs = nowMs + 1000
    return true
  }
  const pass = async (request: IncomingMessage, response: ServerResponse) => {
    const isRead = request.method === 'GET' && /\/messages[/?]/.test(request.url ?? '')
    if (isRead && refuses()) {
      const inASecond = { 'retry-after': '1', 'ratelimit-remaining': '0', 'ratelimit-reset': '1' }
      response.writeHead(429, { 'content-type': 'application/json', ...limits(), ...inASecond })
      const body = { success: false, message: 'Rate limit exceeded.', details: 'Try again in 1 s.' }
      response.end(JSON.stringify(body))
      return
    }
    const body = await buffer(request)
    readsInProgress += isRead ? 1 : 0
    const answer = await fetch(target + request.url, {
      method: request.method ?? 'GET',
      headers: headersOf(request),
      ...(body.length > 0 && { body }),
    })
    const text = await answer.text()
    readsInProgress -= isRead ? 1 : 0
    response.writeHead(answer.status, { 'content-type': 'application/json', ...(isRead && limits()) })
    response.end(request.url === '/api/v1/me' ? limited(text) : text)
  }
  const limited = (text: string): string => {
    const { data, ...others } = JSON.parse(text)
    const reads = { remaining: left, resets_in_seconds: resetS() }
    return JSON.stringify({
      ...others,
      data: { ...data, limits: { ...data.limits, reads_per_minute: limit }, reads },
    })
  }
  const url = await serveHttp(t, (request, response) => {
    pass(request, response).catch(() => response.destroy())
  })
  return { url, reads: () => reads, refused: () => refused, earlyAfterRefusal: () => early }
}

function headersOf({ headers }: IncomingMessage): Record<string, string> {
  const names = ['x-api-key', 'content-type', 'idempotency-key']
  return Object.fromEntries(names.flatMap((name) => (headers[name] ? [[name, String(headers[name])]] : [])))
}
