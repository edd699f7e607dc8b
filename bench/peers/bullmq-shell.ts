/**
 * BullMQ as a single-create service, behind a plain node:http shell: a request adds a job, a worker in the same process
 * calls the model with undici, and the request is answered when the job has finished. It leaves out API keys, tiers, checks,
 * the timeout of the wait, callbacks, retention and metrics. Parley does not depend on its packages, so they are loaded when
 * it runs, and only the parts used here have types.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'
import { onBenchMessage, sendToBench, settingsFromBench } from '../load/bench-channel.ts'

interface Settings {
  readonly modelPort: number
  readonly redisPort: number
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
  ) => Closable & { add(name: string, data: object, options: object): Promise<QueuedJob> }
  readonly QueueEvents: new (name: string, options: object) => Closable & { setMaxListeners(n: number): void }
  readonly Worker: new (name: string, work: (job: QueuedJob) => Promise<unknown>, options: object) => Closable
}

const NAME = 'bullmq'
const { modelPort, redisPort } = settingsFromBench<Settings>()
const { Queue, QueueEvents, Worker } = (await import(NAME)) as Bullmq
const pool = new Pool(`http://127.0.0.1:${modelPort}`, { connections: 256, pipelining: 1 })
const headers = { 'content-type': 'application/json' }
const WAIT_MS = 90_000

const connection = { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null }
const queue = new Queue('messages', { connection })
const events = new QueueEvents('messages', { connection })
const worker = new Worker('messages', ask, { connection, concurrency: 256 })
// Finished jobs stay readable, as in Parley.
const jobOptions = { removeOnComplete: false, removeOnFail: false }

async function ask({ data }: QueuedJob): Promise<unknown> {
  const path = '/v1/chat/completions'
  const { statusCode, body } = await pool.request({ method: 'POST', path, headers, body: data.body })
  const text = await body.text()
  if (statusCode !== 200) throw new Error(`the model answered ${statusCode}`)
  return { response_content: text }
}

const server = createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', () => {
    createAndWait(Buffer.concat(pieces).toString())
      .then((answer) => {
        response.writeHead(200, { ...headers, 'content-length': Buffer.byteLength(answer) })
        response.end(answer)
      })
      .catch((error: Error) => {
        response.writeHead(500, headers)
        response.end(JSON.stringify({ error: error.message }))
      })
  })
})
server.keepAliveTimeout = 75_000

async function createAndWait(body: string): Promise<string> {
  JSON.parse(body)
  const job = await queue.add('message', { body }, jobOptions)
  const result = await job.waitUntilFinished(events, WAIT_MS)
  return JSON.stringify({ status: 'completed', job_id: job.id, result })
}

await Promise.all([queue.waitUntilReady(), events.waitUntilReady(), worker.waitUntilReady()])
events.setMaxListeners(0)
onBenchMessage(() => {})
server.listen(0, '127.0.0.1', 16_384, () => {
  sendToBench({ kind: 'ready', port: (server.address() as AddressInfo).port })
})
