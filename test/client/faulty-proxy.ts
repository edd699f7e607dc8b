/**
 * Passes requests on from a client to the server, unless a script names a fault for them.
 *
 *     const proxy = await startFaultyProxy(t, parley.url)
 *     proxy.script('reset after', { status: 503, headers: { 'retry-after': '2' } }) // later requests succeed
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Lifetime } from '../parley.ts'

export type Fault =
  | 'pass'
  /** The server never receives the request. */
  | 'reset before'
  /** The server has answered, but the answer is lost. */
  | 'reset after'
  /** Half of the server's answer arrives. */
  | 'cut the answer'
  /** Nobody responds until the test ends. */
  | 'silence'
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string }

export interface Passing {
  readonly method: string
  readonly path: string
  readonly idempotencyKey: string | undefined
  readonly body: string
}

export interface FaultyProxy {
  readonly url: string
  readonly requests: readonly Passing[]
  script(...faults: readonly Fault[]): void
  received(count: number): Promise<void>
}

export interface ProxyOptions {
  /** If true, the server behaves like version 0.2.0, which cannot read several jobs in one request or wait for them. */
  readonly older?: boolean
}

/** Version 0.2.0 sends this response to `GET /api/v1/messages?ids=…`. */
const NO_SUCH_ROUTE: Fault = {
  status: 404,
  headers: { 'content-type': 'application/json; charset=utf-8' },
  body: '{"success":false,"message":"Not found.","details":"There is no GET /api/v1/messages; see /docs for the routes."}',
}

export async function startFaultyProxy(
  t: Lifetime,
  target: string,
  { older = false }: ProxyOptions = {},
): Promise<FaultyProxy> {
  const requests: Passing[] = []
  const faults: Fault[] = []
  const watchers = new Set<() => void>()
  const server = createServer((request, response) => {
    void readBody(request).then(async (body) => {
      const { method = '', url = '', headers } = request
      requests.push({ method, path: url, idempotencyKey: headers['idempotency-key']?.toString(), body })
      for (const look of watchers) look()
      const isTooNew = older && method === 'GET' && url.startsWith('/api/v1/messages?')
      await perform(isTooNew ? NO_SUCH_ROUTE : (faults.shift() ?? 'pass'), request, response, body, target)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(async () => {
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeAllConnections()
    await closed
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    script: (...more) => void faults.push(...more),
    received: (count) =>
      new Promise((resolve) => {
        const look = () => {
          if (requests.length < count) return
          watchers.delete(look)
          resolve()
        }
        watchers.add(look)
        look()
      }),
  }
}

async function perform(
  fault: Fault,
  request: IncomingMessage,
  response: ServerResponse,
  body: string,
  target: string,
): Promise<void> {
  if (fault === 'silence') return
  if (fault === 'reset before') {
    response.socket?.resetAndDestroy()
    return
  }
  if (typeof fault === 'object') {
    response.writeHead(fault.status, fault.headers ?? {}).end(fault.body ?? '')
    return
  }
  const { method = '', url = '', headers } = request
  const passed = ['content-type', 'x-api-key', 'idempotency-key'].flatMap((name): [string, string][] => {
    const value = headers[name]
    return typeof value === 'string' ? [[name, value]] : []
  })
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const init = { method, headers: passed, signal: gone.signal, ...(body !== '' && { body }) }
  const answer = await fetch(target + url, init).catch(() => null)
  const text = await answer?.text().catch(() => null)
  if (!answer || typeof text !== 'string') {
    response.destroy()
    return
  }
  if (fault === 'reset after') {
    response.socket?.resetAndDestroy()
    return
  }
  for (const [name, value] of answer.headers) {
    if (!/^(connection|keep-alive|transfer-encoding|content-length)$/.test(name))
      response.setHeader(name, value)
  }
  response.writeHead(answer.status, { 'content-length': Buffer.byteLength(text) })
  if (fault === 'cut the answer') {
    response.write(text.slice(0, text.length / 2), () => response.socket?.resetAndDestroy())
    return
  }
  response.end(text)
}

async function readBody(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}
