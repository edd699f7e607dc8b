/**
 * Drains a backlog with BullMQ. A job's return value is its result, which Redis stores. `url` is the port of Redis. The peer
 * leaves out fair order between accounts, the response cache, receipts and usage.
 */
import { onBenchMessage, sendToBench, settingsFromBench } from '../load/bench-channel.ts'
import { bodies, type DrainOrder, type DrainSettings, modelCaller } from './drain-settings.ts'

interface QueuedJob {
  readonly data: { readonly body: string }
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
const { modelPort, url, jobs, bytes, concurrency } = settingsFromBench<DrainSettings>()
const { Queue, Worker } = (await import(NAME)) as Bullmq
const ask = modelCaller(modelPort, concurrency)
const connection = { host: '127.0.0.1', port: Number(url), maxRetriesPerRequest: null }
const queue = new Queue('messages', { connection })
// Finished jobs stay readable, as in Parley.
const opts = { removeOnComplete: false, removeOnFail: false }

onBenchMessage<DrainOrder>((order) => {
  if (order.kind === 'go') {
    new Worker('messages', async ({ data }) => ({ content: await ask(data.body) }), {
      connection,
      concurrency,
    })
  } else {
    void queue.getCompletedCount().then((count) => sendToBench({ kind: 'ended', count }))
  }
})
for (const group of bodies(jobs, bytes, FILL_GROUP)) {
  await queue.addBulk(group.map((body) => ({ name: 'message', data: { body }, opts })))
}
sendToBench({ kind: 'ready' })
