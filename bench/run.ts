/**
 * `npm run bench [-- NAME …]` runs all benchmarks or the named ones, prints their tables, writes `results.json` and draws
 * pictures. First it kills a server on each store, and checks that nothing is lost that the server promised. `--no-kills` skips
 * the kills.
 */
import { parseArgs } from 'node:util'
import { DEFAULTS } from '../src/config/settings.ts'
import { backlog } from './benchmarks/backlog.ts'
import { backlogPostgres } from './benchmarks/backlog-postgres.ts'
import { batchfile } from './benchmarks/batchfile.ts'
import { callbacks, callbacksPostgres, callbacksSteady } from './benchmarks/callbacks.ts'
import { cost } from './benchmarks/cost.ts'
import { dashboards } from './benchmarks/dashboards.ts'
import { drainBacklog, drainPostgres } from './benchmarks/drain.ts'
import { heldRequests } from './benchmarks/held-requests.ts'
import { ingest } from './benchmarks/ingest.ts'
import { isolation } from './benchmarks/isolation.ts'
import { losesNothing } from './benchmarks/kill.ts'
import { nodes } from './benchmarks/nodes.ts'
import { read } from './benchmarks/read.ts'
import { ALL_CELLS, real } from './benchmarks/real.ts'
import { size } from './benchmarks/size.ts'
import { start } from './benchmarks/start.ts'
import { sync } from './benchmarks/sync.ts'
import { syncPostgres } from './benchmarks/sync-postgres.ts'
import { killAll } from './harness/child.ts'
import { printLine } from './harness/output.ts'
import { machine } from './harness/results.ts'
import { figure } from './harness/table.ts'

const BENCHMARKS = [
  real,
  sync,
  ingest,
  drainBacklog,
  drainPostgres,
  batchfile,
  backlog,
  backlogPostgres,
  heldRequests,
  callbacks,
  callbacksSteady,
  read,
  cost,
  start,
  size,
  nodes,
  isolation,
  syncPostgres,
  callbacksPostgres,
  dashboards,
]

const ROUNDS = 5

const { values, positionals } = parseArgs({
  allowPositionals: true,
  allowNegative: true,
  options: {
    rounds: { type: 'string' },
    seconds: { type: 'string', default: '3' },
    jobs: { type: 'string', default: '100000' },
    waiting: { type: 'string' },
    callbacks: { type: 'string', default: '20000' },
    concurrency: { type: 'string', default: String(DEFAULTS.callbacks.concurrency) },
    full: { type: 'boolean', default: false },
    against: { type: 'string' },
    stores: { type: 'string', default: ALL_CELLS.stores.join() },
    delays: { type: 'string', default: ALL_CELLS.delaysMs.join() },
    callers: { type: 'string', default: ALL_CELLS.callers.join() },
    sides: { type: 'string' },
    kills: { type: 'boolean', default: true },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

async function main(): Promise<void> {
  const unknown = positionals.filter((name) => !BENCHMARKS.some((benchmark) => benchmark.name === name))
  if (values.help || unknown.length > 0) {
    if (unknown.length > 0) printLine(`There is no benchmark ${unknown.join(', ')}.`)
    printLine('npm run bench [-- NAME …] [--rounds 5] [--seconds 3] [--jobs 100000] [--waiting 1000000]')
    printLine('              [--callbacks 20000] [--concurrency 512] [--full] [--against CLONE] [--no-kills]')
    printLine('real: [--stores sqlite,postgres] [--delays 200,1000] [--callers 512,2000]')
    printLine('      [--sides this,other,bare,combined]')
    for (const { name, about } of BENCHMARKS) printLine(`  ${name.padEnd(18)} ${about}`)
    process.exitCode = values.help ? 0 : 2
    return
  }
  const options = {
    seconds: Number(values.seconds),
    jobs: Number(values.jobs),
    waiting: values.waiting === undefined ? null : Number(values.waiting),
    callbacks: Number(values.callbacks),
    concurrency: Number(values.concurrency),
    full: values.full,
    against: values.against ?? null,
    cells: {
      stores: values.stores.split(','),
      delaysMs: values.delays.split(',').map(Number),
      callers: values.callers.split(',').map(Number),
      sides: values.sides?.split(',') ?? null,
    },
  }
  const { cores, cpu, node, system } = machine()
  printLine(`${cores} cores (${cpu}), ${system}, Node ${node}; rounds of ${options.seconds} s`)
  if (values.kills) for (const store of ['sqlite', 'postgres'] as const) printLine(await losesNothing(store))
  const failed: string[] = []
  for (const benchmark of BENCHMARKS) {
    if (positionals.length > 0 && !positionals.includes(benchmark.name)) continue
    printLine(`\n${benchmark.name}: ${benchmark.about}\n`)
    const rounds = Number(values.rounds ?? benchmark.rounds ?? ROUNDS)
    const startedMs = performance.now()
    try {
      await benchmark.run({ ...options, rounds })
    } catch (error) {
      printLine(error instanceof Error ? error.stack : String(error))
      failed.push(benchmark.name)
      killAll()
      continue
    }
    printLine(
      `\n${benchmark.name}: ${rounds} rounds took ${figure((performance.now() - startedMs) / 1000)} s`,
    )
  }
  if (failed.length > 0) {
    printLine(`\nFailed: ${failed.join(', ')}`)
    process.exitCode = 1
  }
}

await main()
process.exit()
