/** Declares the settings of the peers that drain a backlog, and calls the model for them. */
import { Pool } from 'undici'
import { chatBody } from '../load/bodies.ts'
import { correlationIdGenerator } from '../load/correlation-id.ts'
import { CORRELATION_ID_PLACEHOLDER } from '../load/request.ts'

export interface DrainSettings {
  readonly modelPort: number
  readonly url: string
  readonly jobs: number
  readonly bytes: number
  readonly concurrency: number
}

export type DrainOrder = { readonly kind: 'go' } | { readonly kind: 'ended?' }

const headers = { 'content-type': 'application/json' }

export function modelCaller(modelPort: number, concurrency: number): (body: string) => Promise<string> {
  const pool = new Pool(`http://127.0.0.1:${modelPort}`, { connections: concurrency, pipelining: 1 })
  return async (body) => {
    const answer = await pool.request({ method: 'POST', path: '/v1/chat/completions', headers, body })
    const text = await answer.body.text()
    if (answer.statusCode !== 200) throw new Error(`the model answered ${answer.statusCode}`)
    return text
  }
}

export function* bodies(jobs: number, bytes: number, group: number): Generator<string[]> {
  const nextCorrelationId = correlationIdGenerator()
  const form = chatBody(bytes)
  for (let left = jobs; left > 0; left -= group) {
    yield Array.from({ length: Math.min(group, left) }, () =>
      form.replace(CORRELATION_ID_PLACEHOLDER, nextCorrelationId),
    )
  }
}
