/**
 * Runs the service that you would compose from parts instead of running Parley. BullMQ stores the jobs, Portkey's gateway calls
 * the model, and undici posts signed callbacks. Callbacks have their own queue, so that a retry does not call the model again.
 * The service leaves out API keys, tiers, checks of jobs and answers, checks of callback addresses, retention, usage and
 * metrics.
 */
import { Agent, Pool } from 'undici'
import { callbackRequest } from '../../src/callbacks/callback-sender.ts'
import { DEFAULTS } from '../../src/config/settings.ts'
import { makeSecret } from '../../src/net/signing-secrets.ts'
import { onBenchMessage, sendToBench, settingsFromBench } from '../load/bench-channel.ts'
import { serveBatches } from './http-shell.ts'

interface Settings {
  readonly modelPort: number
  readonly gatewayPort: number
  readonly redisPort: number
  /** Limits the jobs, and separately the callbacks, in progress. */
  readonly concurrency: number
}
interface NewJob {
  readonly messages: readonly object[]
  readonly model: string
  readonly callback: { readonly callback_url: string; readonly callback_payload: object }
}
interface OwedCallback {
  readonly id: string
  readonly content: string
  readonly url: string
  readonly payload: object
}
interface QueuedJob<Data> {
  readonly id: string
  readonly data: Data
}
interface Bullmq {
  readonly Queue: new (
    name: string,
    options: object,
  ) => {
    addBulk(jobs: readonly object[]): Promise<readonly { readonly id: string }[]>
    add(name: string, data: object, options: object): Promise<unknown>
    getCompletedCount(): Promise<number>
    waitUntilReady(): Promise<unknown>
  }
  readonly Worker: new <Data>(
    name: string,
    work: (job: QueuedJob<Data>) => Promise<unknown>,
    options: object,
  ) => object
}

const NAME = 'bullmq'
const { modelPort, gatewayPort, redisPort, concurrency } = settingsFromBench<Settings>()
const { Queue, Worker } = (await import(NAME)) as Bullmq
const connection = { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null }
const opts = {
  attempts: 10,
  backoff: { type: 'exponential', delay: 5000, jitter: 0.2 },
  removeOnComplete: false,
  removeOnFail: false,
}
const jobs = new Queue('messages', { connection })
const callbacks = new Queue('callbacks', { connection })
await Promise.all([jobs.waitUntilReady(), callbacks.waitUntilReady()])

const gateway = new Pool(`http://127.0.0.1:${gatewayPort}`, { connections: concurrency, pipelining: 1 })
const gatewayHeaders = {
  'content-type': 'application/json',
  'x-portkey-provider': 'openai',
  'x-portkey-custom-host': `http://127.0.0.1:${modelPort}/v1`,
  authorization: 'Bearer none',
}
// The peer opens as many connections to a host as Parley.
const receivers = new Agent({ connections: DEFAULTS.callbacks.concurrency_per_origin, pipelining: 1 })
const secrets = { current: makeSecret(), previous: null }

async function callModel({ id, data }: QueuedJob<NewJob>): Promise<{ content: string }> {
  const { model, messages, callback } = data
  const request = { method: 'POST', path: '/v1/chat/completions', headers: gatewayHeaders } as const
  const answer = await gateway.request({ ...request, body: JSON.stringify({ model, messages }) })
  const completion = (await answer.body.json()) as { choices: { message: { content: string } }[] }
  const content = completion.choices[0]?.message.content
  if (answer.statusCode !== 200 || content === undefined) throw new Error(`answered ${answer.statusCode}`)
  const owed: OwedCallback = { id, content, url: callback.callback_url, payload: callback.callback_payload }
  await callbacks.add('callback', owed, opts)
  return { content }
}

async function deliver({ data }: QueuedJob<OwedCallback>): Promise<{ status: number }> {
  const createdAtMs = Date.now()
  const { url, headers, body } = callbackRequest(
    {
      callback: { url: data.url, headers: {}, payloadJson: JSON.stringify(data.payload) },
      view: {
        id: data.id,
        status: 'completed',
        createdAtMs,
        contentJson: JSON.stringify(data.content),
        errorJson: null,
        usageJson: null,
      },
      endedAtMs: createdAtMs,
      secrets,
    },
    createdAtMs,
  )
  const { origin, pathname } = new URL(url)
  const answer = await receivers.request({ origin, method: 'POST', path: pathname, headers, body })
  await answer.body.dump()
  if (answer.statusCode !== 200) throw new Error(`the receiver answered ${answer.statusCode}`)
  return { status: answer.statusCode }
}

new Worker<NewJob>('messages', callModel, { connection, concurrency })
new Worker<OwedCallback>('callbacks', deliver, { connection, concurrency })
onBenchMessage(() => void jobs.getCompletedCount().then((count) => sendToBench({ kind: 'completed', count })))
serveBatches(async (created) => {
  const added = await jobs.addBulk(created.map((data) => ({ name: 'message', data, opts })))
  return added.map(({ id }) => id)
})
