/** Requests to the server the page came from: to the admin API, and for the playground to the public interface. */
import { parseExactly } from './format.ts'
import { adminToken, operatorName, signOut } from './session.ts'

/** An answer other than success, or none at all (`status` 0). Its message is for people. */
export class ApiError extends Error {
  readonly status: number
  readonly details: string | null

  constructor(status: number, message: string, details: string | null = null) {
    super(message)
    this.status = status
    this.details = details
  }

  /** Message and details in one. */
  get words(): string {
    return this.details === null ? this.message : `${this.message} ${this.details}`
  }
}

export interface Ask {
  /** POST with a body and GET without one, unless it says otherwise. */
  readonly method?: 'POST' | 'DELETE'
  readonly body?: unknown
  readonly signal?: AbortSignal
}

export interface Envelope<T> {
  readonly status: number
  readonly headers: Headers
  readonly data: T
}

/** The `data` of an admin route, such as `/overview`. An answer of 401 signs out. */
export async function admin<T>(path: string, ask: Ask = {}): Promise<T> {
  try {
    const { data } = await call<T>(`/admin/api${path}`, ask, credentials())
    return data
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      signOut('The admin token is not accepted any more. Sign in again.')
    }
    throw error
  }
}

/** Whether the server takes the token; rejects when it cannot be asked. */
export async function tokenIsRight(token: string): Promise<boolean> {
  try {
    await call('/admin/api/overview', {}, { authorization: `Bearer ${token}` })
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return false
    throw error
  }
}

/** The stream of events; its reader is the caller's. */
export async function openEvents(signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const response = await send('/admin/api/events', { headers: credentials(), signal })
  if (!response.ok || !response.body) throw await errorOf(response)
  return response.body
}

/** A call of the public interface with an API key. */
export function callWithKey<T>(path: string, key: string, ask: Ask = {}): Promise<Envelope<T>> {
  return call<T>(path, ask, { 'x-api-key': key })
}

async function call<T>(path: string, ask: Ask, headers: Record<string, string>): Promise<Envelope<T>> {
  const { body, signal = null } = ask
  const sends = body !== undefined
  const { method = sends ? 'POST' : 'GET' } = ask
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
    throw new ApiError(0, 'The server does not answer.')
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  try {
    const { message, details } = (await response.json()) as { message: string; details?: string }
    return new ApiError(response.status, message, details ?? null)
  } catch {
    return new ApiError(response.status, `The server answered ${response.status}.`)
  }
}

/** Who asks: by what right, and by what name the audit log knows them. */
function credentials(): Record<string, string> {
  const token = adminToken()
  const name = operatorName()
  return {
    ...(token !== null && { authorization: `Bearer ${token}` }),
    ...(name !== null && { 'x-parley-operator': bytesOf(name) }),
  }
}

/** A header takes bytes, a character each: those of UTF-8 carry names of any writing. */
function bytesOf(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text))
}
