/**
 * Defines the sides that drain a backlog. Each side first stores its jobs, then starts while the model holds every answer, so
 * that the measured time includes neither storing nor starting.
 */
import { DatabaseSync } from 'node:sqlite'
import { type Child, startScript } from '../harness/child.ts'
import { assertEachSettledOnce, assertThat } from '../harness/invariants.ts'
import { DataFolder, Parley } from '../harness/parley.ts'
import { Postgres } from '../harness/postgres.ts'
import { assertEachSettledOnceOnPostgres } from '../harness/postgres-invariants.ts'
import { startRedis } from '../harness/redis.ts'
import { jobBody } from '../load/bodies.ts'
import { correlationIdGenerator } from '../load/correlation-id.ts'
import { CORRELATION_ID_PLACEHOLDER } from '../load/request.ts'
import { QueueStore } from './queue-store.ts'

export type DrainSideName =
  | 'parley on postgres'
  | 'graphile-worker'
  | 'pg-boss'
  | 'parley on sqlite'
  | 'bullmq'

export interface DrainOptions {
  readonly modelPort: number
  readonly jobs: number
  readonly bytes: number
  readonly concurrency: number
}

export interface DrainSide {
  readonly worker: Child
  readonly postgres: Postgres | null
  /** This process's CPU time counts as the database's. */
  readonly server: Child | null
  /** Counts only completed jobs with a durable result. */
  ended(): Promise<number>
  finish(): Promise<void>
}

export function startDrainSide(name: DrainSideName, options: DrainOptions): Promise<DrainSide> {
  switch (name) {
    case 'parley on postgres':
      return startParleyOnPostgres(options)
    case 'graphile-worker':
      return startPeer('graphile-drain.ts', options, GRAPHILE_ENDED)
    case 'pg-boss':
      return startPeer('pgboss-drain.ts', options, PGBOSS_ENDED)
    case 'parley on sqlite':
      return startParleyOnSqlite(options)
    case 'bullmq':
      return startBullmq(options)
  }
}

const GRAPHILE_ENDED =
  'select (select count(*) from results) - (select count(*) from graphile_worker._private_jobs)'
const PGBOSS_ENDED = `select count(*) from pgboss.job where state = 'completed' and output is not null`

async function startParleyOnPostgres({
  modelPort,
  jobs,
  bytes,
  concurrency,
}: DrainOptions): Promise<DrainSide> {
  const postgres = await Postgres.start()
  const store = await QueueStore.onPostgres(postgres.url(), contents(bytes))
  await store.fill(jobs)
  await store.close()
  await postgres.settle()
  const dataFolder = new DataFolder()
  dataFolder.key = store.key
  const options = { modelPort, database: postgres.url(), role: 'worker', concurrency } as const
  const parley = await Parley.start(options, dataFolder)
  return {
    worker: parley.child,
    postgres,
    server: null,
    ended: () => postgres.number('select count(*) from outcomes'),
    finish: async () => {
      await parley.child.stop()
      await assertEachSettledOnceOnPostgres(postgres, [], jobs)
      parley.dataFolder.remove()
      await postgres.stop()
    },
  }
}

async function startParleyOnSqlite({
  modelPort,
  jobs,
  bytes,
  concurrency,
}: DrainOptions): Promise<DrainSide> {
  const dataFolder = new DataFolder()
  const store = await QueueStore.onSqlite(dataFolder.database, contents(bytes))
  dataFolder.key = store.key
  await store.fill(jobs)
  await store.close()
  const parley = await Parley.start({ modelPort, concurrency }, dataFolder)
  const reader = new DatabaseSync(dataFolder.database, { readOnly: true })
  const count = reader.prepare('select count(*) as n from outcomes')
  return {
    worker: parley.child,
    postgres: null,
    server: null,
    ended: async () => Number(count.get()?.n),
    finish: async () => {
      reader.close()
      await parley.child.stop()
      assertEachSettledOnce(dataFolder.database, [], jobs)
      dataFolder.remove()
    },
  }
}

async function startPeer(script: string, options: DrainOptions, endedSql: string): Promise<DrainSide> {
  const postgres = await Postgres.start()
  const worker = await startPeerScript(script, { ...options, url: postgres.url() })
  await postgres.settle()
  worker.tell({ kind: 'go' })
  return {
    worker,
    postgres,
    server: null,
    ended: () => postgres.number(endedSql),
    finish: async () => {
      await worker.stop()
      const ended = await postgres.number(endedSql)
      assertThat(ended === options.jobs, `${ended} of ${options.jobs} jobs have ended`)
      await postgres.stop()
    },
  }
}

async function startBullmq(options: DrainOptions): Promise<DrainSide> {
  const redis = await startRedis()
  const worker = await startPeerScript('bullmq-drain.ts', { ...options, url: String(redis.port) })
  worker.tell({ kind: 'go' })
  return {
    worker,
    postgres: null,
    server: redis.child,
    ended: async () => (await worker.ask<{ count: number }>({ kind: 'ended?' }, 'ended')).count,
    finish: async () => {
      await worker.stop()
      await redis.stop()
    },
  }
}

async function startPeerScript(
  script: string,
  settings: DrainOptions & { readonly url: string },
): Promise<Child> {
  const { child } = await startScript(new URL(`../peers/${script}`, import.meta.url), {
    name: script,
    settings,
  })
  return child
}

/** The returned function makes a different user message each time. With it, the request has this many bytes. */
function contents(bytes: number): () => string {
  const { messages } = JSON.parse(jobBody(bytes)) as { messages: { role: string; content: string }[] }
  const form = messages.find(({ role }) => role === 'user')?.content ?? ''
  const nextCorrelationId = correlationIdGenerator()
  return () => form.replace(CORRELATION_ID_PLACEHOLDER, nextCorrelationId)
}
