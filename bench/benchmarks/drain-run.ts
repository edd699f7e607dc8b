/** Measures how fast one side drains a stored backlog, from the model's first answer until the last result is durable. */
import { reserveOf } from '../../src/sharing/fair-slots.ts'
import { type Rig, startRig } from '../harness/load-run.ts'
import type { PostgresWork } from '../harness/postgres.ts'
import { waitForCount } from '../harness/wait-for-count.ts'
import { type DrainOptions, type DrainSide, type DrainSideName, startDrainSide } from './drain-sides.ts'

export interface Drained {
  readonly perSecond: number
  /** CPU times are per job. `workerCpuUs` covers the process that runs jobs. */
  readonly workerCpuUs: number
  readonly databaseCpuUs: number
  readonly modelCpuUs: number
  readonly walBytes: number
  readonly commits: number
}

const ENDED_WITHIN_MS = 600_000
const BEGUN_WITHIN_MS = 60_000

export async function drain(name: DrainSideName, options: Omit<DrainOptions, 'modelPort'>): Promise<Drained> {
  const rig = await startRig({})
  await rig.model.ask({ kind: 'hold', timed: false }, 'holding')
  const side = await startDrainSide(name, { ...options, modelPort: rig.modelPort })
  const model = (question: 'held' | 'answered') => countOf(rig, question)
  await waitForCount(
    () => model('held'),
    // By then, each account holds a slot, so no job gets a slot that Parley reserves for accounts without any.
    Math.min(options.jobs, options.concurrency - reserveOf(options.concurrency)),
    BEGUN_WITHIN_MS,
    side.worker,
    'jobs begun',
  )
  const from = await reading(rig, side)
  rig.model.tell({ kind: 'release', overMs: 0 })
  await waitForCount(() => model('answered'), options.jobs, ENDED_WITHIN_MS, side.worker, 'jobs answered')
  await waitForCount(() => side.ended(), options.jobs, ENDED_WITHIN_MS, side.worker, 'jobs ended')
  const to = await reading(rig, side)
  await side.finish()
  await rig.stop()
  return between(from, to, options.jobs)
}

async function countOf({ model }: Rig, question: 'held' | 'answered'): Promise<number> {
  return (await model.ask<{ count: number }>({ kind: `${question}?` }, question)).count
}

interface Reading {
  readonly atMs: number
  readonly workerMs: number
  readonly serverMs: number
  readonly modelMs: number
  readonly postgres: PostgresWork
}

const NO_WORK: PostgresWork = { cpuMs: 0, walBytes: 0, commits: 0 }

async function reading({ model }: Rig, { worker, server, postgres }: DrainSide): Promise<Reading> {
  const atMs = performance.now()
  return {
    atMs,
    workerMs: worker.cpuMs(),
    serverMs: server?.cpuMs() ?? 0,
    modelMs: model.cpuMs(),
    postgres: (await postgres?.work()) ?? NO_WORK,
  }
}

function between(from: Reading, to: Reading, jobs: number): Drained {
  const each = (of: (reading: Reading) => number) => (of(to) - of(from)) / jobs
  return {
    perSecond: 1000 / each(({ atMs }) => atMs),
    workerCpuUs: each(({ workerMs }) => workerMs) * 1000,
    databaseCpuUs: each(({ serverMs, postgres }) => serverMs + postgres.cpuMs) * 1000,
    modelCpuUs: each(({ modelMs }) => modelMs) * 1000,
    walBytes: each(({ postgres }) => postgres.walBytes),
    commits: each(({ postgres }) => postgres.commits),
  }
}
