/**
 * Serves single creates with BullMQ behind a plain node:http shell. A request adds a job. A worker in the same process calls
 * the model with undici, directly or through Portkey's gateway. The request is answered when the job has finished.
 *
 * The peer leaves out API keys, tiers, checks, the timeout of the wait, callbacks, retention and metrics. Parley does not
 * depend on BullMQ's packages, so this file loads them when it runs, and declares types only for what it uses.
 */
import { Pool } from 'undici'
import { onBenchMessage, sendToBench, settingsFromBench } from '../load/bench-channel.ts'
import { servePosts } from './http-shell.ts'

interface Settings {
  readonly modelPort: number
  readonly redisPort: number
  readonly gatewayPort?: number
  readonly concurrency: number
}

interface QueuedJob {
  readonly id: string
  readonly data: { readonly body: string }
  waitUntilFinished(events: Closable, ttlMs: number): Promise<unknown>
}
interface Closable {
  waitUntilReady(): Promise<unknown>
}
interface Bullmq {
  readonly Queue: new (
    name: string,
    options: object,
  ) => Closable & {
    add(name: string, data: object, options: object): Promise<QueuedJob>
    getCompletedCount(): Promise<number>
  }
  readonly QueueEvents: new (name: string, options: object) => Closable & { setMaxListeners(n: number): void }
  readonly Worker: new (name: string, work: (job: QueuedJob) => Promise<unknown>, options: object) => Closable
}

const NAME = 'bullmq'
const { modelPort, redisPort, gatewayPort, concurrency } = settingsFromBench<Settings>()
const { Queue, QueueEvents, Worker } = (await import(NAME)) as Bullmq
const pool = new Pool(`http://127.0.0.1:${gatewayPort ?? modelPort}`, {
  connections: concurrency,
  pipelining: 1,
})
const callHeaders = {
  'content-type': 'application/json',
  ...(gatewayPort !== undefined && {
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `http://127.0.0.1:${modelPort}/v1`,
    authorization: 'Bearer none',
  }),
}
const WAIT_MS = 90_000

const connection = { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null }
const queue = new Queue('messages', { connection })
const events = new QueueEvents('messages', { connection })
const worker = new Worker('messages', ask, { connection, concurrency })
// Finished jobs stay readable, as in Parley. The gateway closes idle connections, sometimes just as a call is sent, so calls
// need retries.
const backoff = { type: 'fixed', delay: 100 }
const jobOptions = { removeOnComplete: false, removeOnFail: false, attempts: 3, backoff }

async function ask({ data }: QueuedJob): Promise<unknown> {
  const path = '/v1/chat/completions'
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path,
    headers: callHeaders,
    body: data.body,
  })
  const text = await body.text()
  if (statusCode !== 200) throw new Error(`the model answered ${statusCode}`)
  return { response_content: text }
}

async function createAndWait(body: string): Promise<string> {
  JSON.parse(body)
  const job = await queue.add('message', { body }, jobOptions)
  const result = await job.waitUntilFinished(events, WAIT_MS)
  return JSON.stringify({ status: 'completed', job_id: job.id, result })
}

await Promise.all([queue.waitUntilReady(), events.waitUntilReady(), worker.waitUntilReady()])
events.setMaxListeners(0)
onBenchMessage(
  () => void queue.getCompletedCount().then((count) => sendToBench({ kind: 'completed', count })),
)
servePosts(200, createAndWait)
