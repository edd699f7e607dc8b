/**
 * Measures what fifty open dashboards cost single creates on one server. The turns of a round are without, with, with, without
 * dashboards, so that drift affects both sides equally.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { type Child, startScript } from '../harness/child.ts'
import { assertEachSettledOnce } from '../harness/invariants.ts'
import { type Rig, runLoad, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { Parley } from '../harness/parley.ts'
import { keepResults } from '../harness/results.ts'
import { ratios, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { jobBody } from '../load/bodies.ts'
import type { DashboardOrder } from '../load/dashboards.ts'

const DASHBOARDS = 50
const TURNS = [false, true, true, false, false, true, true, false] as const
const WARM_UP_MS = 300
const TARGET = 0.97
const TOKEN = 'token-of-the-bench'

interface Sums {
  readonly perSecond: number
  readonly cpuUs: number
}

export const dashboards: Benchmark = {
  name: 'dashboards',
  about: `single creates with ${DASHBOARDS} dashboards open, against none`,
  async run(options) {
    const rig = await startRig({})
    const parley = await Parley.start({ modelPort: rig.modelPort, env: { PARLEY_ADMIN_TOKEN: TOKEN } })
    const settings = { port: parley.port, token: TOKEN }
    const script = new URL('../load/dashboards.ts', import.meta.url)
    const { child: pages } = await startScript(script, { name: 'dashboards', settings })
    const [without, withThem]: [Sums[], Sums[]] = [[], []]
    const jobIds: string[] = []
    for (let round = 0; round < options.rounds; round++) {
      const sums = await measureRound({ rig, parley, pages, options, jobIds })
      without.push(sums.without)
      withThem.push(sums.withThem)
    }
    await pages.stop()
    await parley.child.stop()
    await rig.stop()
    assertEachSettledOnce(parley.dataFolder.database, jobIds, jobIds.length)
    parley.dataFolder.remove()
    tell(without, withThem, options)
  },
}

interface RoundParts {
  readonly rig: Rig
  readonly parley: Parley
  readonly pages: Child
  readonly options: BenchOptions
  readonly jobIds: string[]
}

async function measureRound({ rig, parley, pages, options, jobIds }: RoundParts) {
  const turns = { without: [] as Sums[], withThem: [] as Sums[] }
  for (const open of TURNS) {
    const done = pages.hear('so it is')
    pages.tell((open ? { kind: 'open', count: DASHBOARDS } : { kind: 'close' }) satisfies DashboardOrder)
    await done
    const order = {
      kind: 'run',
      target: parley.single(jobBody(1024)),
      connections: 64,
      warmUpMs: WARM_UP_MS,
      measureMs: options.seconds * 1000,
    } as const
    const { result, sideCpuUs } = await runLoad(rig, order, [parley.child])
    for (const id of result.jobIds) jobIds.push(id)
    turns[open ? 'withThem' : 'without'].push({ perSecond: result.perSecond, cpuUs: sideCpuUs })
  }
  return { without: meanOf(turns.without), withThem: meanOf(turns.withThem) }
}

function meanOf(turns: readonly Sums[]): Sums {
  const mean = (of: (sums: Sums) => number) => turns.reduce((sum, turn) => sum + of(turn), 0) / turns.length
  return { perSecond: mean(({ perSecond }) => perSecond), cpuUs: mean(({ cpuUs }) => cpuUs) }
}

function tell(without: readonly Sums[], withThem: readonly Sums[], { rounds }: BenchOptions): void {
  const rate = ratios(withThem, without, ({ perSecond }) => perSecond)
  const cpu = ratios(withThem, without, ({ cpuUs }) => cpuUs)
  const row = (name: string, sums: readonly Sums[]) => [
    name,
    figure(spreadOf(sums.map(({ perSecond }) => perSecond)).median),
    figure(spreadOf(sums.map(({ cpuUs }) => cpuUs)).median),
  ]
  printLine(
    table(['dashboards', 'a second', 'CPU µs'], [row('none', without), row(`${DASHBOARDS} open`, withThem)]),
  )
  printLine(`with ÷ without: rate ${spread(rate)} (${TARGET} or more is wanted), CPU of a job ${spread(cpu)}`)
  keepResults('dashboards', rounds, { rate_with_over_without: rate, cpu_with_over_without: cpu })
}
