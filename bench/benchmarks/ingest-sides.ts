/**
 * Defines the sides that accept batches and run none of their jobs, so that only accepting is measured. Batches have
 * idempotency keys, except on the sides without keys.
 */
import { DatabaseSync } from 'node:sqlite'
import { startScript } from '../harness/child.ts'
import { assertThat } from '../harness/invariants.ts'
import type { Rig, Worked } from '../harness/load-run.ts'
import { Parley } from '../harness/parley.ts'
import { Postgres } from '../harness/postgres.ts'
import { startRedis } from '../harness/redis.ts'
import { batchBody } from '../load/bodies.ts'
import type { RunResult, Target } from '../load/generator.ts'
import { withKeys } from '../load/idempotency-keys.ts'

export type IngestSideName =
  | 'parley on sqlite'
  | 'parley on sqlite without keys'
  | 'bullmq'
  | 'parley on postgres'
  | 'parley on postgres without keys'
  | 'graphile-worker'

export interface IngestSide {
  readonly target: Target
  readonly processes: readonly Worked[]
  finish(result: RunResult): Promise<void>
}

export const JOBS_EACH = 30
const BYTES = 1024

export async function startIngestSide(name: IngestSideName, rig: Rig): Promise<IngestSide> {
  const side = await start(name, rig)
  return name.endsWith(' without keys') ? side : { ...side, target: withKeys(side.target) }
}

function start(name: IngestSideName, rig: Rig): Promise<IngestSide> {
  switch (name) {
    case 'parley on sqlite':
    case 'parley on sqlite without keys':
      return startOnSqlite(rig)
    case 'parley on postgres':
    case 'parley on postgres without keys':
      return startOnPostgres(rig)
    case 'bullmq':
      return startBullmq()
    case 'graphile-worker':
      return startGraphile()
  }
}

/** The mock model holds every answer, so one job runs and all others stay queued. */
async function startOnSqlite({ modelPort }: Rig): Promise<IngestSide> {
  const parley = await Parley.start({ modelPort, concurrency: 1 })
  return {
    target: parley.batch(batchBody(JOBS_EACH, BYTES)),
    processes: [parley.child],
    finish: async (result) => {
      await parley.child.kill()
      const db = new DatabaseSync(parley.dataFolder.database, { readOnly: true })
      const stored = Number(db.prepare('select count(*) as n from jobs').get()?.n)
      db.close()
      assertAllStored(result, stored)
      parley.dataFolder.remove()
    },
  }
}

async function startOnPostgres({ modelPort }: Rig): Promise<IngestSide> {
  const postgres = await Postgres.start()
  const parley = await Parley.start({ modelPort, database: postgres.url(), role: 'api' })
  return {
    target: parley.batch(batchBody(JOBS_EACH, BYTES)),
    processes: [parley.child, postgres],
    finish: async (result) => {
      await parley.child.stop()
      assertAllStored(result, await postgres.number('select count(*) from jobs'))
      parley.dataFolder.remove()
      await postgres.stop()
    },
  }
}

async function startBullmq(): Promise<IngestSide> {
  const redis = await startRedis()
  const script = new URL('../peers/bullmq-ingest.ts', import.meta.url)
  const settings = { redisPort: redis.port }
  const { child, ready } = await startScript<{ port: number }>(script, { name: 'BullMQ shell', settings })
  return {
    target: shellTarget(ready.port),
    processes: [child, redis.child],
    finish: async (result) => {
      assertAllStored(result, (await child.ask<{ count: number }>({ kind: 'stored?' }, 'stored')).count)
      await child.stop()
      await redis.stop()
    },
  }
}

async function startGraphile(): Promise<IngestSide> {
  const postgres = await Postgres.start()
  const script = new URL('../peers/graphile-ingest.ts', import.meta.url)
  const settings = { url: postgres.url() }
  const { child, ready } = await startScript<{ port: number }>(script, { name: 'graphile shell', settings })
  return {
    target: shellTarget(ready.port),
    processes: [child, postgres],
    finish: async (result) => {
      await child.stop()
      assertAllStored(result, await postgres.number('select count(*) from graphile_worker._private_jobs'))
      await postgres.stop()
    },
  }
}

function shellTarget(port: number): Target {
  return {
    port,
    host: '127.0.0.1',
    path: '/batches',
    headers: { 'content-type': 'application/json' },
    body: batchBody(JOBS_EACH, BYTES),
    expect: { status: 202, text: '"job_ids"', correlationId: false },
  }
}

function assertAllStored({ answers }: RunResult, stored: number): void {
  const accepted = answers * JOBS_EACH
  assertThat(stored === accepted, `${accepted} jobs were accepted, and ${stored} are stored`)
}
