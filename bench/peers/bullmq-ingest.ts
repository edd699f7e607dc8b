/**
 * Accepts batches with BullMQ behind a plain node:http shell. The shell adds the jobs of a request with one `addBulk`, and
 * answers with their IDs. No worker runs them. The peer leaves out API keys, tiers, limits, checks of the jobs, and
 * idempotency.
 */
import { onBenchMessage, sendToBench, settingsFromBench } from '../load/bench-channel.ts'
import { serveBatches } from './http-shell.ts'

interface Bullmq {
  readonly Queue: new (
    name: string,
    options: object,
  ) => {
    addBulk(jobs: readonly object[]): Promise<readonly { readonly id: string }[]>
    waitUntilReady(): Promise<unknown>
    getWaitingCount(): Promise<number>
  }
}

const NAME = 'bullmq'
const { redisPort } = settingsFromBench<{ readonly redisPort: number }>()
const { Queue } = (await import(NAME)) as Bullmq
const queue = new Queue('messages', {
  connection: { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null },
})
await queue.waitUntilReady()

onBenchMessage(() => void queue.getWaitingCount().then((count) => sendToBench({ kind: 'stored', count })))
serveBatches(async (jobs) => {
  const added = await queue.addBulk(jobs.map((data) => ({ name: 'message', data })))
  return added.map(({ id }) => id)
})
