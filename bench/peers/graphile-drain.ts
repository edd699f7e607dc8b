/**
 * Drains a backlog with graphile-worker and its batching settings. One statement claims many jobs into the local queue, and one
 * completes many. The task calls the model, and writes the result to a table together with other results. A task ends only when
 * its result is durable, so no completed job can lose its result.
 *
 * The peer leaves out keeping finished jobs (it deletes them), fair order between accounts, the response cache, receipts and
 * usage.
 */
import pg from 'pg'
import { onBenchMessage, sendToBench, settingsFromBench } from '../load/bench-channel.ts'
import { bodies, type DrainOrder, type DrainSettings, modelCaller } from './drain-settings.ts'

interface Graphile {
  readonly makeWorkerUtils: (options: object) => Promise<{
    migrate(): Promise<void>
    addJobs(specs: readonly object[]): Promise<unknown>
    release(): Promise<void>
  }>
  readonly run: (options: object) => Promise<unknown>
  readonly Logger: new (factory: () => () => void) => object
}
interface Result {
  readonly jobId: string
  readonly content: string
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

const NAME = 'graphile-worker'
const FILL_GROUP = 1000
/** Parley writes results with as many statements at a time. */
const IN_FLIGHT = 2

const { modelPort, url, jobs, bytes, concurrency } = settingsFromBench<DrainSettings>()
const { makeWorkerUtils, run, Logger } = (await import(NAME)) as Graphile
const ask = modelCaller(modelPort, concurrency)
const logger = new Logger(() => () => {})
const results = new pg.Pool({ connectionString: url, max: IN_FLIGHT })
let waiting: Result[] = []
let inFlight = 0

function write(jobId: string, content: string): Promise<void> {
  return new Promise((resolve, reject) => {
    waiting.push({ jobId, content, resolve, reject })
    if (waiting.length === 1) setImmediate(() => void flush())
  })
}

async function flush(): Promise<void> {
  if (inFlight >= IN_FLIGHT || waiting.length === 0) return
  const group = waiting
  waiting = []
  inFlight += 1
  try {
    const values = [group.map(({ jobId }) => jobId), group.map(({ content }) => content)]
    await results.query({ name: 'results', text: INSERT, values })
    for (const { resolve } of group) resolve()
  } catch (error) {
    for (const { reject } of group) reject(error)
  }
  inFlight -= 1
  void flush()
}

const INSERT = `insert into results (job_id, content, ended_at)
  select r.job_id, r.content, now() from unnest($1::bigint[], $2::text[]) as r(job_id, content)`

async function fill(): Promise<void> {
  await results.query(
    'create table results (job_id bigint primary key, content text not null, ended_at timestamptz not null)',
  )
  const utils = await makeWorkerUtils({ connectionString: url, logger })
  await utils.migrate()
  for (const group of bodies(jobs, bytes, FILL_GROUP)) {
    await utils.addJobs(group.map((body) => ({ identifier: 'message', payload: { body } })))
  }
  await utils.release()
}

async function work(): Promise<void> {
  const message = async (payload: { body: string }, helpers: { job: { id: string } }) => {
    await write(helpers.job.id, await ask(payload.body))
  }
  await run({
    noHandleSignals: true,
    taskList: { message },
    preset: {
      worker: {
        connectionString: url,
        logger,
        concurrentJobs: concurrency,
        maxPoolSize: 20,
        pollInterval: 2000,
        localQueue: { size: 2 * concurrency },
        completeJobBatchDelay: 50,
        failJobBatchDelay: 50,
      },
    },
  })
}

onBenchMessage<DrainOrder>((order) => {
  if (order.kind === 'go') void work()
})
await fill()
sendToBench({ kind: 'ready' })
