/**
 * Accepts batches with graphile-worker behind a plain node:http shell. The shell adds the jobs of a request with one `addJobs`,
 * and answers with their IDs. No worker runs them. The peer leaves out API keys, tiers, limits, checks of the jobs, and
 * idempotency.
 */
import { onBenchMessage, settingsFromBench } from '../load/bench-channel.ts'
import { serveBatches } from './http-shell.ts'

interface Graphile {
  readonly makeWorkerUtils: (options: object) => Promise<{
    migrate(): Promise<void>
    addJobs(specs: readonly object[]): Promise<readonly { readonly id: string }[]>
  }>
  readonly Logger: new (factory: () => () => void) => object
}

const NAME = 'graphile-worker'
/** Parley opens as many connections. */
const CONNECTIONS = 10
const { url } = settingsFromBench<{ readonly url: string }>()
const { makeWorkerUtils, Logger } = (await import(NAME)) as Graphile
const utils = await makeWorkerUtils({
  connectionString: url,
  maxPoolSize: CONNECTIONS,
  logger: new Logger(() => () => {}),
})
await utils.migrate()

onBenchMessage(() => {})
serveBatches(async (jobs) => {
  const added = await utils.addJobs(jobs.map((payload) => ({ identifier: 'message', payload })))
  return added.map(({ id }) => id)
})
