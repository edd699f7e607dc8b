/**
 * Compares one Parley with several numbers of request threads: single creates, all sides alive and in turns. Prints the rate and
 * the CPU time of a job, and how much of it each thread takes.
 *
 *     node bench/threads.ts [--threads 1,2,3] [--rounds 8] [--seconds 3] [--warm-up 9]
 */
import { readdirSync, readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Run, runLoad, startRig } from './harness/load-run.ts'
import { printLine } from './harness/output.ts'
import { Parley } from './harness/parley.ts'
import { interleaved, ratios, spreadOf } from './harness/rounds.ts'
import { figure, spread, table } from './harness/table.ts'
import { jobBody } from './load/bodies.ts'

const BYTES = 1024
const CONNECTIONS = 64
const MS_PER_TICK = 10
/** Threads of V8 and libuv, which are many and do little each. */
const LEAST_SHARE = 0.03

const { values } = parseArgs({
  options: {
    threads: { type: 'string', default: '1,2,3' },
    rounds: { type: 'string', default: '8' },
    seconds: { type: 'string', default: '3' },
    'warm-up': { type: 'string', default: '9' },
  },
})
const sides = values.threads.split(',')
const rig = await startRig({})
const servers = new Map<string, Parley>()
for (const side of sides) {
  servers.set(side, await Parley.start({ modelPort: rig.modelPort, threads: Number(side) }))
}

/** CPU time of each thread in milliseconds, by its number. */
function threadsOf(pid: number): Map<string, number> {
  const folder = `/proc/${pid}/task`
  return new Map(
    readdirSync(folder).map((thread) => {
      const fields = readFileSync(`${folder}/${thread}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
      return [thread, (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK]
    }),
  )
}

interface Measured {
  readonly run: Run
  /** Microseconds for each job, of the threads that do the most. */
  readonly threads: readonly number[]
}

async function measure(side: string, seconds: number): Promise<Measured> {
  const parley = servers.get(side)
  if (parley === undefined) throw new Error(`there is no side ${side}`)
  const measureMs = seconds * 1000
  const target = parley.single(jobBody(BYTES))
  const order = { kind: 'run', target, connections: CONNECTIONS, warmUpMs: 200, measureMs } as const
  const before = threadsOf(parley.child.pid)
  const run = await runLoad(rig, order, [parley.child])
  const jobs = (run.result.perSecond * (measureMs + order.warmUpMs)) / 1000
  const spent = [...threadsOf(parley.child.pid)].map(([thread, ms]) => ms - (before.get(thread) ?? 0))
  const all = spent.reduce((sum, ms) => sum + ms, 0)
  const most = spent.filter((ms) => ms > all * LEAST_SHARE).toSorted((a, b) => b - a)
  return { run, threads: most.map((ms) => (ms * 1000) / jobs) }
}

for (const side of sides) await measure(side, Number(values['warm-up']))
const measured = await interleaved(sides, Number(values.rounds), (side) =>
  measure(side, Number(values.seconds)),
)
const [first = ''] = sides
const of = (side: string) => measured.get(side) ?? []
const rows = sides.map((side) => {
  const threads = of(side).at(-1)?.threads ?? []
  return [
    side,
    figure(spreadOf(of(side).map(({ run }) => run.result.perSecond)).median),
    spread(ratios(of(side), of(first), ({ run }) => run.result.perSecond)),
    figure(spreadOf(of(side).map(({ run }) => run.sideCpuUs)).median),
    spread(ratios(of(side), of(first), ({ run }) => run.sideCpuUs)),
    threads.map((us) => figure(us)).join(' + '),
  ]
})
printLine(
  table(['threads', 'jobs/s', `rate / ${first}`, 'CPU us', `CPU / ${first}`, 'CPU us by thread'], rows),
)
for (const { child, dataFolder } of servers.values()) {
  await child.stop()
  dataFolder.remove()
}
await rig.stop()
