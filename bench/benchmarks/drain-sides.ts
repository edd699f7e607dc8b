/**
 * Who drains a backlog: each is filled first, then begins to work while the model still holds every answer back. So neither
 * the filling nor the start of a process is in the measured time.
 */
import { DatabaseSync } from 'node:sqlite'
import { type Child, startScript } from '../harness/child.ts'
import { eachSettledOnce, hold } from '../harness/gates.ts'
import { Home, Parley } from '../harness/parley.ts'
import { Postgres } from '../harness/postgres.ts'
import { eachSettledOnceThere } from '../harness/postgres-gates.ts'
import { startRedis } from '../harness/redis.ts'
import { jobBody } from '../load/bodies.ts'
import { markMaker } from '../load/mark.ts'
import { MARK_PLACE } from '../load/request.ts'
import { StoreQueue } from './store-queue.ts'

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
  /** Jobs running at once. */
  readonly concurrency: number
}

export interface DrainSide {
  readonly worker: Child
  readonly postgres: Postgres | null
  /** Another process whose CPU time is the database's. */
  readonly server: Child | null
  /** Jobs whose result is durable and that are done with. */
  ended(): Promise<number>
  /** Stops it; then checks what must hold. */
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

async function startParleyOnPostgres({ modelPort, jobs, bytes }: DrainOptions): Promise<DrainSide> {
  const postgres = await Postgres.start()
  const queue = await StoreQueue.onPostgres(postgres.url(), contents(bytes))
  await queue.fill(jobs)
  await queue.close()
  await postgres.settle()
  const parley = await Parley.start({ modelPort, database: postgres.url(), role: 'worker' })
  return {
    worker: parley.child,
    postgres,
    server: null,
    ended: () => postgres.number('select count(*) from outcomes'),
    finish: async () => {
      await parley.child.stop()
      await eachSettledOnceThere(postgres, [], jobs)
      parley.home.remove()
      await postgres.stop()
    },
  }
}

async function startParleyOnSqlite({ modelPort, jobs, bytes }: DrainOptions): Promise<DrainSide> {
  const home = new Home()
  const queue = await StoreQueue.onSqlite(home.database, contents(bytes))
  await queue.fill(jobs)
  await queue.close()
  const parley = await Parley.start({ modelPort }, home)
  const reader = new DatabaseSync(home.database, { readOnly: true })
  const count = reader.prepare('select count(*) as n from outcomes')
  return {
    worker: parley.child,
    postgres: null,
    server: null,
    ended: async () => Number(count.get()?.n),
    finish: async () => {
      reader.close()
      await parley.child.stop()
      eachSettledOnce(home.database, [], jobs)
      home.remove()
    },
  }
}

async function startPeer(script: string, options: DrainOptions, endedSql: string): Promise<DrainSide> {
  const postgres = await Postgres.start()
  const worker = await startPeerScript(script, { ...options, url: postgres.url() })
  await postgres.settle()
  worker.send({ kind: 'go' })
  return {
    worker,
    postgres,
    server: null,
    ended: () => postgres.number(endedSql),
    finish: async () => {
      await worker.stop()
      const ended = await postgres.number(endedSql)
      hold(ended === options.jobs, `${ended} of ${options.jobs} jobs have ended`)
      await postgres.stop()
    },
  }
}

async function startBullmq(options: DrainOptions): Promise<DrainSide> {
  const redis = await startRedis(undefined)
  const worker = await startPeerScript('bullmq-drain.ts', { ...options, url: String(redis.port) })
  worker.send({ kind: 'go' })
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

/** What the user says, so that the whole request has that many bytes; different for each job. */
function contents(bytes: number): () => string {
  const { messages } = JSON.parse(jobBody(bytes)) as { messages: { role: string; content: string }[] }
  const form = messages.find(({ role }) => role === 'user')?.content ?? ''
  const nextMark = markMaker()
  return () => form.replace(MARK_PLACE, nextMark)
}
