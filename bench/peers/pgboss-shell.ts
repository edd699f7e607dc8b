/**
 * Serves single creates with pg-boss behind a plain node:http shell. A request sends a job. A worker in the same process calls
 * the model with undici. The request is answered when the database has the completed job and its output.
 *
 * The process wakes the worker as soon as a job is sent, which is faster than polling or a notification, and the worker fetches
 * all queued jobs in one statement. A call that completes many jobs would make each wait for the slowest, so each job is
 * completed alone.
 *
 * The peer leaves out API keys, tiers, checks, the timeout of the wait, callbacks, the response cache and metrics.
 */
import { onBenchMessage, settingsFromBench } from '../load/bench-channel.ts'
import { modelCaller } from './drain-settings.ts'
import { servePosts } from './http-shell.ts'
import { type BossJob, startBoss } from './pgboss.ts'

interface Settings {
  readonly modelPort: number
  readonly url: string
}

const QUEUE = 'messages'
const CONCURRENCY = 256

const { modelPort, url } = settingsFromBench<Settings>()
const ask = modelCaller(modelPort, CONCURRENCY)
const boss = await startBoss(url)
await boss.createQueue(QUEUE, { partition: true })

interface Pending {
  readonly resolve: (answer: string) => void
  readonly reject: (error: unknown) => void
}
const pending = new Map<string, Pending>()
/** These jobs ended before their sender knew their ID. */
const early = new Map<string, string>()
let toFetch = 0
let fetching = false

async function fetchAll(): Promise<void> {
  if (fetching) return
  fetching = true
  while (toFetch > 0) {
    const jobs = await boss.fetch(QUEUE, { batchSize: Math.min(toFetch, CONCURRENCY) })
    toFetch -= jobs.length
    for (const job of jobs) void work(job)
  }
  fetching = false
}

async function work({ id, data }: BossJob): Promise<void> {
  try {
    const content = await ask(data.body)
    await boss.complete(QUEUE, id, { content })
    const answer = JSON.stringify({ status: 'completed', job_id: id, result: { content } })
    const waiting = pending.get(id)
    if (waiting) waiting.resolve(answer)
    else early.set(id, answer)
  } catch (error) {
    pending.get(id)?.reject(error)
  }
}

async function createAndWait(body: string): Promise<string> {
  JSON.parse(body)
  const id = await boss.send(QUEUE, { body })
  if (id === null) throw new Error('the job was not stored')
  toFetch += 1
  fetchAll().catch((error: Error) => process.stderr.write(`${error.stack}\n`))
  const answer = early.get(id)
  early.delete(id)
  if (answer !== undefined) return answer
  return new Promise<string>((resolve, reject) => pending.set(id, { resolve, reject })).finally(() =>
    pending.delete(id),
  )
}

onBenchMessage(() => {})
servePosts(200, createAndWait)
