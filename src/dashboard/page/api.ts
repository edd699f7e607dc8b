/** Sends requests to the server: to the admin API and, for the playground, to the API for callers. */
import { parseExactly } from './format.ts'
import { adminToken, operatorName, signOut } from './session.ts'

/** The server responded with an error, or not at all (`status` 0). The message is for the operator. */
export class ApiError extends Error {
  readonly status: number
  readonly details: string | null

  constructor(status: number, message: string, details: string | null = null) {
    super(message)
    this.status = status
    this.details = details
  }

  get words(): string {
    return this.details === null ? this.message : `${this.message} ${this.details}`
  }
}

export interface RequestOptions {
  /** Without a method, a request with a body is a POST, and a request without a body is a GET. */
  readonly method?: 'POST' | 'DELETE'
  readonly body?: unknown
  readonly signal?: AbortSignal
}

export interface Envelope<T> {
  readonly status: number
  readonly headers: Headers
  readonly data: T
}

/** Returns the `data` of a route below `/admin/api`, such as `/overview`. A 401 response signs the operator out. */
export async function admin<T>(path: string, options: RequestOptions = {}): Promise<T> {
  try {
    const { data } = await call<T>(`/admin/api${path}`, options, credentials())
    return data
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      signOut('The admin token is no longer valid. Sign in again.')
    }
    throw error
  }
}

export async function download(path: string): Promise<Blob> {
  const response = await send(`/admin/api${path}`, { headers: credentials() })
  if (!response.ok) throw await errorOf(response)
  return response.blob()
}

/** A token with other characters is wrong, and a browser may reject a header that contains it. */
const VISIBLE_ASCII = /^[\x21-\x7e]+$/

/** Resolves with false if the server rejects the token. Rejects if it does not respond, or responds with another error. */
export async function isTokenAccepted(token: string): Promise<boolean> {
  if (!VISIBLE_ASCII.test(token)) return false
  try {
    await call('/admin/api/overview', {}, { authorization: `Bearer ${token}` })
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return false
    throw error
  }
}

/** Opens the stream of metric samples. The caller must read or cancel the stream. */
export async function openEvents(signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const response = await send('/admin/api/events', { headers: credentials(), signal })
  if (!response.ok || !response.body) throw await errorOf(response)
  return response.body
}

export async function callWithKey<T>(
  path: string,
  key: string,
  options: RequestOptions = {},
): Promise<Envelope<T>> {
  if (!VISIBLE_ASCII.test(key)) throw new ApiError(401, 'This cannot be a key.')
  return call<T>(path, options, { 'x-api-key': key })
}

async function call<T>(
  path: string,
  options: RequestOptions,
  headers: Record<string, string>,
): Promise<Envelope<T>> {
  const { body, signal = null } = options
  const sends = body !== undefined
  const { method = sends ? 'POST' : 'GET' } = options
  const response = await send(path, {
    method,
    headers: sends ? { ...headers, 'content-type': 'application/json' } : headers,
    signal,
    ...(sends && { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw await errorOf(response)
  const { data } = parseExactly(await response.text()) as { data: T }
  return { status: response.status, headers: response.headers, data }
}

async function send(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, { ...init, cache: 'no-store', credentials: 'omit', redirect: 'error' })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new ApiError(0, 'The server does not respond.')
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  try {
    const { message, details } = (await response.json()) as { message: string; details?: string }
    return new ApiError(response.status, message, details ?? null)
  } catch {
    return new ApiError(response.status, `The server responded with HTTP ${response.status}.`)
  }
}

function credentials(): Record<string, string> {
  const token = adminToken()
  const name = operatorName()
  return {
    ...(token !== null && { authorization: `Bearer ${token}` }),
    ...(name !== null && { 'x-parley-operator': bytesOf(name) }),
  }
}

/** Encodes text as UTF-8 for a header, in which each character stands for a byte. Names can therefore be in any script. */
function bytesOf(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text))
}
