/**
 * Sends batches of jobs with callbacks at a steady pace. There are so few batches that the benchmark's own process can send
 * them.
 */
import { Pool } from 'undici'
import { newIdempotencyKey } from '../../client/src/idempotency-key.ts'
import { jobBody } from './bodies.ts'
import { correlationIdGenerator } from './correlation-id.ts'
import { monotonicMs } from './monotonic.ts'
import { HOSTS, urlOf } from './receiver-hosts.ts'
import { CORRELATION_ID_PLACEHOLDER } from './request.ts'

export interface SteadyLoad {
  readonly port: number
  readonly headers: Readonly<Record<string, string>>
  /** If true, each batch has an Idempotency-Key, like those of the published client. */
  readonly keyed: boolean
  readonly receiversPort: number
  readonly bytes: number
  readonly batches: number
  readonly jobsEach: number
  readonly paceMs: number
}

const CONNECTIONS = 16

/** Callbacks go to each host in turn. */
export async function sendSteadily(load: SteadyLoad): Promise<string[]> {
  const pool = new Pool(`http://127.0.0.1:${load.port}`, { connections: CONNECTIONS, pipelining: 1 })
  const form = jobBody(load.bytes).slice(0, -1)
  const nextCorrelationId = correlationIdGenerator()
  let order = 0
  const job = () => {
    const url = urlOf(order++ % HOSTS, load.receiversPort)
    const callback = { callback_url: url, callback_payload: { sent_ms: monotonicMs() } }
    return `${form.replace(CORRELATION_ID_PLACEHOLDER, nextCorrelationId)},"callback":${JSON.stringify(callback)}}`
  }
  const send = async (): Promise<string[]> => {
    const body = `[${Array.from({ length: load.jobsEach }, job).join(',')}]`
    const path = '/api/v1/messages/batches'
    const headers = { ...load.headers, ...(load.keyed && { 'idempotency-key': `${newIdempotencyKey()}.0` }) }
    const answer = await pool.request({ method: 'POST', path, headers, body })
    const text = await answer.body.text()
    if (answer.statusCode !== 202) throw new Error(`a batch was answered with ${answer.statusCode} ${text}`)
    return (JSON.parse(text) as { data: { job_ids: string[] } }).data.job_ids
  }
  const startMs = performance.now()
  const accepted: Promise<string[]>[] = []
  for (let batch = 0; batch < load.batches; batch++) {
    const waitMs = startMs + batch * load.paceMs - performance.now()
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
    accepted.push(send())
  }
  const ids = (await Promise.all(accepted)).flat()
  await pool.close()
  return ids
}
