/**
 * Measures what one hostile account costs another. An account sends single creates, first alone on the server, then while a
 * second account runs all attacks of `test/process/hostile-account.ts` at once.
 */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { Child } from '../harness/child.ts'
import { assertCompleted } from '../harness/invariants.ts'
import { type Rig, type Run, runLoad, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { Parley } from '../harness/parley.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { jobBody } from '../load/bodies.ts'

const BYTES = 1024
const CONNECTIONS = 64
const RATE_TARGET = 0.5
const P99_TARGET = 3
const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const HOSTILE = fileURLToPath(new URL('../../test/process/hostile-account.ts', import.meta.url))

type SideName = 'alone' | 'attacked'
const TITLES: Readonly<Record<SideName, string>> = { alone: 'alone', attacked: 'beside a hostile account' }

export const isolation: Benchmark = {
  name: 'isolation',
  about: 'single creates of one account while another is hostile, against the same alone',
  async run(options) {
    const rig = await startRig({})
    const runs = await interleaved(['alone', 'attacked'], options.rounds, (side) =>
      measure(side, rig, options),
    )
    await rig.stop()
    report(runs.get('alone') ?? [], runs.get('attacked') ?? [], options)
  },
}

async function measure(side: SideName, rig: Rig, { seconds }: BenchOptions): Promise<Run> {
  const parley = await Parley.start({ modelPort: rig.modelPort })
  const hostile = side === 'attacked' ? await attack(parley) : null
  const order = {
    kind: 'run',
    target: parley.single(jobBody(BYTES)),
    connections: CONNECTIONS,
    warmUpMs: seconds * 500,
    measureMs: seconds * 1000,
  } as const
  const run = await runLoad(rig, order, [parley.child])
  await hostile?.stop()
  await parley.child.stop()
  assertCompleted(parley.dataFolder.database, run.result.jobIds)
  parley.dataFolder.remove()
  return { ...run, result: { ...run.result, jobIds: [] } }
}

async function attack({ port, dataFolder }: Parley): Promise<Child> {
  const args = [MAIN, 'keys', 'create', '--account', 'hostile', '--tier', 'user_free']
  const env = { ...process.env, DATABASE_URL: `sqlite:${dataFolder.database}` }
  const printed = execFileSync(process.execPath, args, { encoding: 'utf8', cwd: dataFolder.folder, env })
  const [key = ''] = /prl_\w+/.exec(printed) ?? []
  const hostile = new Child({
    name: 'hostile account',
    command: process.execPath,
    args: [HOSTILE, `http://127.0.0.1:${port}`, key],
  })
  await hostile.printed(/attacking/)
  return hostile
}

function report(alone: readonly Run[], attacked: readonly Run[], { rounds }: BenchOptions): void {
  const rate = ratios(attacked, alone, ({ result }) => result.perSecond)
  const p99 = ratios(attacked, alone, ({ result }) => result.latencies.p99)
  const row = (side: SideName, runs: readonly Run[]) => {
    const middle = (of: (run: Run) => number) => figure(spreadOf(runs.map(of)).median)
    return [
      TITLES[side],
      middle(({ result }) => result.perSecond),
      middle(({ result }) => result.latencies.p50),
      middle(({ result }) => result.latencies.p99),
    ]
  }
  printLine(table(['side', 'a second', 'p50 ms', 'p99 ms'], [row('alone', alone), row('attacked', attacked)]))
  printLine(
    `attacked ÷ alone: rate ${spread(rate)} (${RATE_TARGET} or more is wanted), p99 ${spread(p99)} (${P99_TARGET} or less)`,
  )
  keepResults('isolation', rounds, { rate_attacked_over_alone: rate, p99_attacked_over_alone: p99 })
  const bar = (label: string, { median, min, max }: typeof rate, target: number) => {
    return { label, value: median, min, max, ours: true, target }
  }
  writePicture(
    pictureOf('isolation'),
    'Single creates of an account beside a hostile one',
    'Beside a hostile account, divided by alone: median, range over the rounds, target (dashed).',
    [
      { title: 'answers a second', unit: '×', bars: [bar('rate', rate, RATE_TARGET)] },
      { title: 'latency', unit: '×', bars: [bar('p99', p99, P99_TARGET)] },
    ],
  )
}
