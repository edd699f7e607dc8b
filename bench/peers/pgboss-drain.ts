/**
 * Drains a backlog with pg-boss. Workers fetch batches without a pause. One statement completes a batch and stores each job's
 * output, which is its durable result. The peer leaves out fair order between accounts, the response cache, receipts and usage.
 */
import { onBenchMessage, sendToBench, settingsFromBench } from '../load/bench-channel.ts'
import { bodies, type DrainOrder, type DrainSettings, modelCaller } from './drain-settings.ts'
import { startBoss } from './pgboss.ts'

const QUEUE = 'messages'
const FILL_GROUP = 1000
/** One worker fetches and completes jobs while the other waits for the model. More workers were not faster. */
const WORKERS = 2

const { modelPort, url, jobs, bytes, concurrency } = settingsFromBench<DrainSettings>()
const ask = modelCaller(modelPort, concurrency)
const boss = await startBoss(url)

async function fill(): Promise<void> {
  await boss.createQueue(QUEUE, { partition: true })
  for (const group of bodies(jobs, bytes, FILL_GROUP)) {
    await boss.insert(
      QUEUE,
      group.map((body) => ({ data: { body } })),
    )
  }
}

async function work(): Promise<void> {
  const options = {
    batchSize: concurrency / WORKERS,
    localConcurrency: WORKERS,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    perJobResults: true,
  }
  await boss.work(QUEUE, options, (batch) =>
    Promise.all(
      batch.map(async ({ id, data }) => {
        return { id, status: 'completed', output: { content: await ask(data.body) } }
      }),
    ),
  )
}

onBenchMessage<DrainOrder>((order) => {
  if (order.kind === 'go') void work()
})
await fill()
sendToBench({ kind: 'ready' })
