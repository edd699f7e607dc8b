/**
 * Compares the CPU time per job of this clone with that of another one, such as an earlier commit with its packages
 * installed: both servers run, and do the same work in turns. A ratio above 1 means that this clone needs more.
 *
 *     node bench/compare.ts OTHER_CLONE [--rounds 12] [--seconds 3] [--warm-up 9] [--only sync,drain,callbacks]
 */
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { runLoad, startRig } from './harness/load-run.ts'
import { printLine } from './harness/output.ts'
import { Parley } from './harness/parley.ts'
import { startReceivers } from './harness/receivers.ts'
import { interleaved, ratios, spreadOf } from './harness/rounds.ts'
import { figure, spread, table } from './harness/table.ts'
import { waitForCount } from './harness/wait-for-count.ts'
import { batchBody, jobBody } from './load/bodies.ts'
import type { Target } from './load/generator.ts'
import { HOSTS, urlOf } from './load/receiver-hosts.ts'

type Side = 'this' | 'other'
type Name = 'sync' | 'drain' | 'callbacks'

const SIDES: readonly Side[] = ['this', 'other']
const BYTES = 1024
const CONNECTIONS = 64
const BATCH_CONNECTIONS = 8
const JOBS_EACH = 30
const RECEIVER_DELAY_MS = 5
const SETTLED_WITHIN_MS = 120_000

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '12' },
    seconds: { type: 'string', default: '3' },
    'warm-up': { type: 'string', default: '9' },
    only: { type: 'string', default: 'sync,drain,callbacks' },
  },
})
const [otherClone] = positionals
if (otherClone === undefined) throw new Error('Pass the folder of the clone to compare with.')

const rig = await startRig({})
const receivers = await startReceivers(RECEIVER_DELAY_MS)
const sides = new Map<Side, Parley>()
for (const side of SIDES) sides.set(side, await start(side))

function start(side: Side): Promise<Parley> {
  return Parley.start({
    modelPort: rig.modelPort,
    callbacks: { allow_networks: ['127.0.0.0/8'] },
    ...(side === 'other' && { main: resolve(otherClone ?? '', 'src/main.ts') }),
  })
}

/** Batches in which each job has a callback; the callbacks go to the hosts in turn. */
function callbackBatch(): string {
  const form = jobBody(BYTES).slice(0, -1)
  const job = (_: unknown, index: number) => {
    const callback = { callback_url: urlOf(index % HOSTS, receivers.port) }
    return `${form},"callback":${JSON.stringify(callback)}}`
  }
  return `[${Array.from({ length: JOBS_EACH }, job).join(',')}]`
}

/** CPU time of a single create in microseconds, over all threads of the server. */
async function sync(parley: Parley, measureMs: number): Promise<number> {
  const target = parley.single(jobBody(BYTES))
  const order = { kind: 'run', target, connections: CONNECTIONS, warmUpMs: 200, measureMs } as const
  return (await runLoad(rig, order, [parley.child])).sideCpuUs
}

/** The same per job of a batch, from its create until all jobs are settled, or their callbacks delivered. */
async function batches(
  parley: Parley,
  target: Target,
  measureMs: number,
  counted: { metric: string; label: string },
): Promise<number> {
  const ended = () => parley.sumOf(counted.metric, counted.label)
  const [before, fromMs] = [await ended(), parley.child.cpuMs()]
  const order = { kind: 'run', target, connections: BATCH_CONNECTIONS, warmUpMs: 0, measureMs } as const
  const { result } = await runLoad(rig, order, [parley.child])
  const jobs = result.answers * JOBS_EACH
  await waitForCount(ended, before + jobs, SETTLED_WITHIN_MS, parley.child, 'jobs ended')
  return ((parley.child.cpuMs() - fromMs) * 1000) / jobs
}

const MEASURES: Readonly<Record<Name, (parley: Parley, ms: number) => Promise<number>>> = {
  sync,
  drain: (parley, ms) =>
    batches(parley, parley.batch(batchBody(JOBS_EACH, BYTES)), ms, {
      metric: 'parley_jobs_total',
      label: 'outcome="completed"',
    }),
  callbacks: (parley, ms) =>
    batches(parley, parley.batch(callbackBatch()), ms, {
      metric: 'parley_callbacks_total',
      label: 'outcome="delivered"',
    }),
}

const isName = (name: string): name is Name => name in MEASURES
const rows: string[][] = []
for (const name of values.only.split(',').filter(isName)) {
  const measure = async (side: Side, seconds: number) => {
    const parley = sides.get(side)
    return parley ? MEASURES[name](parley, seconds * 1000) : Number.NaN
  }
  for (const side of SIDES) await measure(side, Number(values['warm-up']))
  const measured = await interleaved(SIDES, Number(values.rounds), (side) =>
    measure(side, Number(values.seconds)),
  )
  const [ours = [], theirs = []] = SIDES.map((side) => measured.get(side))
  const us = (of: readonly number[]) => figure(spreadOf(of).median)
  rows.push([name, us(ours), us(theirs), spread(ratios(ours, theirs, (each) => each))])
  printLine(rows.at(-1)?.join('  ') ?? '')
}
printLine(`\n${table(['CPU time of a job', 'this (us)', 'other (us)', 'this / other'], rows)}`)
for (const { child, dataFolder } of sides.values()) {
  await child.stop()
  dataFolder.remove()
}
await Promise.all([rig.stop(), receivers.child.stop()])
