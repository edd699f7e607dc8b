/**
 * Delivers callbacks with BullMQ: a worker reads them from the queue, signs them and posts them with an undici pool for each
 * host. Redis stores their outcome. The peer leaves out address checks, a limit per host, and the job that the callback
 * reports.
 */
import { Agent } from 'undici'
import { callbackRequest, type SignableBody } from '../../src/callbacks/callback-sender.ts'
import { DEFAULTS } from '../../src/config/settings.ts'
import { onBenchMessage, sendToBench, settingsFromBench } from '../load/bench-channel.ts'
import { owedCallbacks } from '../load/owed-callbacks.ts'
import type { CallbackOrder, CallbackSettings } from './callback-settings.ts'

interface QueuedJob {
  readonly data: SignableBody
}
interface Bullmq {
  readonly Queue: new (
    name: string,
    options: object,
  ) => { addBulk(jobs: readonly object[]): Promise<unknown>; getCompletedCount(): Promise<number> }
  readonly Worker: new (name: string, work: (job: QueuedJob) => Promise<unknown>, options: object) => object
}

const NAME = 'bullmq'
const FILL_GROUP = 1000
const settings = settingsFromBench<CallbackSettings & { readonly redisPort: number }>()
const { concurrency, timeoutMs, redisPort } = settings
const { Queue, Worker } = (await import(NAME)) as Bullmq
const agent = new Agent({
  // The peer opens as many connections to a host as Parley.
  connections: DEFAULTS.callbacks.concurrency_per_origin,
  pipelining: 1,
  headersTimeout: timeoutMs,
  bodyTimeout: timeoutMs,
})
const connection = { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null }
const queue = new Queue('callbacks', { connection })
const opts = {
  attempts: 10,
  backoff: { type: 'exponential', delay: 5000, jitter: 0.2 },
  removeOnComplete: false,
  removeOnFail: false,
}

async function deliver({ data }: QueuedJob): Promise<{ status: number }> {
  const { url, headers, body } = callbackRequest(data, Date.now())
  const { origin, pathname } = new URL(url)
  const answer = await agent.request({ origin, method: 'POST', path: pathname, headers, body })
  await answer.body.dump()
  if (answer.statusCode !== 200) throw new Error(`the receiver answered ${answer.statusCode}`)
  return { status: answer.statusCode }
}

onBenchMessage<CallbackOrder>((order) => {
  if (order.kind === 'go') new Worker('callbacks', deliver, { connection, concurrency })
  else void queue.getCompletedCount().then((count) => sendToBench({ kind: 'delivered', count }))
})
const owed = owedCallbacks(settings)
for (let at = 0; at < owed.length; at += FILL_GROUP) {
  const group = owed.slice(at, at + FILL_GROUP)
  await queue.addBulk(group.map((data) => ({ name: 'callback', data, opts })))
}
sendToBench({ kind: 'ready' })
