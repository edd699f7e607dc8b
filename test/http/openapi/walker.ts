/** Sends requests to documented routes, and checks every response against the OpenAPI document. */
import assert from 'node:assert/strict'
import { ADMIN_TOKEN, type Answer, type Parley } from '../../parley.ts'
import { conforms, type Route } from './document.ts'

export interface Sent {
  readonly about: string
  readonly body?: unknown
  readonly query?: string
  /** These replace the walker's parameters. */
  readonly parameters?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly method?: string
}

export interface Walker {
  /** Each response is a text such as `GET /healthz 200`. */
  readonly seen: ReadonlySet<string>
  expectOf(route: Route, statuses: readonly number[], sent: Sent): Promise<Answer>
  /**
   * Checks a response that the test obtained without the walker. Fails unless it is documented and has one of these statuses.
   */
  took(route: Route, about: string, answer: Answer, statuses: readonly number[]): void
}

export function walkerOf(parley: Parley, key: string, parameters: Readonly<Record<string, string>>): Walker {
  const seen = new Set<string>()

  async function send(route: Route, { about, body, query = '', headers, ...sent }: Sent): Promise<Answer> {
    const values = { ...parameters, ...sent.parameters }
    const path = route.path.replaceAll(/\{(\w+)\}/g, (_all, name) => encodeURIComponent(values[name] ?? ''))
    const opens = { apiKey: { 'x-api-key': key }, adminToken: { authorization: `Bearer ${ADMIN_TOKEN}` } }
    const response = await fetch(`${parley.url}${path}${query}`, {
      method: sent.method ?? route.method,
      headers: {
        ...(route.wants && opens[route.wants]),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await textOf(response)
    const isJson = response.headers.get('content-type')?.startsWith('application/json')
    const answer = {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson ? JSON.parse(text) : undefined,
    }
    see(route, about, answer)
    return answer
  }

  function see(route: Route, about: string, answer: Answer): void {
    conforms(route, about, answer)
    seen.add(`${route.name} ${answer.status}`)
  }

  function took(route: Route, about: string, answer: Answer, statuses: readonly number[]): void {
    see(route, about, answer)
    assert.ok(statuses.includes(answer.status), `${route.name}, ${about}: ${answer.status} ${answer.text}`)
  }

  async function expectOf(route: Route, statuses: readonly number[], sent: Sent): Promise<Answer> {
    const answer = await send(route, sent)
    const description = `${route.name}, ${sent.about}: ${answer.status} ${answer.text} for ${JSON.stringify(sent).slice(0, 500)}`
    assert.ok(statuses.includes(answer.status), description)
    return answer
  }

  return { seen, expectOf, took }
}

/** An event stream never ends, so only its first part is read. */
async function textOf(response: Response): Promise<string> {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response.text()
  const reader = response.body?.getReader()
  const first = await reader?.read()
  await reader?.cancel()
  return new TextDecoder().decode(first?.value)
}
