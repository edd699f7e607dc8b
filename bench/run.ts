/**
 * `npm run bench [-- NAME …]`: runs all benchmarks or the named ones, prints their tables, and writes `results.json` and
 * a picture of each.
 */
import { parseArgs } from 'node:util'
import { DEFAULTS } from '../src/config/settings.ts'
import { backlog } from './benchmarks/backlog.ts'
import { backlogPostgres } from './benchmarks/backlog-postgres.ts'
import { callbacks, callbacksPostgres } from './benchmarks/callbacks.ts'
import { cost } from './benchmarks/cost.ts'
import { dashboards } from './benchmarks/dashboards.ts'
import { drainBacklog } from './benchmarks/drain.ts'
import { heldRequests } from './benchmarks/held-requests.ts'
import { ingest } from './benchmarks/ingest.ts'
import { isolation } from './benchmarks/isolation.ts'
import { nodes } from './benchmarks/nodes.ts'
import { read } from './benchmarks/read.ts'
import { size } from './benchmarks/size.ts'
import { start } from './benchmarks/start.ts'
import { sync } from './benchmarks/sync.ts'
import { syncPostgres } from './benchmarks/sync-postgres.ts'
import { printLine } from './harness/output.ts'
import { machine } from './harness/results.ts'

const BENCHMARKS = [
  sync,
  ingest,
  drainBacklog,
  backlog,
  heldRequests,
  callbacks,
  read,
  cost,
  start,
  size,
  dashboards,
  isolation,
  syncPostgres,
  backlogPostgres,
  nodes,
  callbacksPostgres,
]

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '4' },
    jobs: { type: 'string', default: '100000' },
    waiting: { type: 'string', default: '1000000' },
    callbacks: { type: 'string', default: '30000' },
    concurrency: { type: 'string', default: String(DEFAULTS.callbacks.concurrency) },
    large: { type: 'boolean', default: false },
    against: { type: 'string' },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

async function main(): Promise<void> {
  const unknown = positionals.filter((name) => !BENCHMARKS.some((benchmark) => benchmark.name === name))
  if (values.help || unknown.length > 0) {
    if (unknown.length > 0) printLine(`There is no benchmark ${unknown.join(', ')}.`)
    printLine('npm run bench [-- NAME …] [--rounds 5] [--seconds 4] [--jobs 100000] [--waiting 1000000]')
    printLine('              [--callbacks 30000] [--concurrency 512] [--large] [--against CLONE]')
    for (const { name, about } of BENCHMARKS) printLine(`  ${name.padEnd(18)} ${about}`)
    process.exitCode = values.help ? 0 : 2
    return
  }
  const options = {
    rounds: Number(values.rounds),
    seconds: Number(values.seconds),
    jobs: Number(values.jobs),
    waiting: Number(values.waiting),
    callbacks: Number(values.callbacks),
    concurrency: Number(values.concurrency),
    large: values.large,
    against: values.against ?? null,
  }
  const { cores, cpu, node, system } = machine()
  printLine(
    `${cores} cores (${cpu}), ${system}, Node ${node}; ${options.rounds} rounds of ${options.seconds} s`,
  )
  for (const benchmark of BENCHMARKS) {
    if (positionals.length > 0 && !positionals.includes(benchmark.name)) continue
    printLine(`\n${benchmark.name}: ${benchmark.about}\n`)
    await benchmark.run(options)
  }
}

await main()
process.exit()
