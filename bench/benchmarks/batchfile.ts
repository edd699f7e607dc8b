/**
 * Compares a batch at /v1/batches, from the upload of its file to the download of its results, with the same jobs in native
 * batches.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { printLine } from '../harness/output.ts'
import { keepResults } from '../harness/results.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { type BatchfileStore, type Finished, runBatchfile } from './batchfile-run.ts'

const STORES: readonly BatchfileStore[] = ['sqlite', 'postgres']
/** Parley's default limit for the lines of a file. */
const MAX_LINES = 50_000
const TARGETS = { rate: 0.8, memoryMiB: 250, others: 1.5 }

type Runs = ReadonlyMap<string, readonly Finished[]>

export const batchfile: Benchmark = {
  name: 'batchfile',
  about: 'a file of 50,000 lines: upload, run and download, against the same jobs through ingest and drain',
  rounds: 3,
  async run({ jobs, rounds, cells }: BenchOptions) {
    const lines = Math.min(jobs, MAX_LINES)
    for (const store of STORES.filter((name) => cells.stores.includes(name))) {
      const runs = await interleaved(['file', 'jobs'], rounds, async (side) => {
        const finished = await runBatchfile({ store, side, lines })
        printLine(`${store}, ${side}: ${figure(lines)} lines, ${figure(finished.perSecond)} a second`)
        return finished
      })
      printLine()
      printLine(report(runs))
      const ratio = ratioOf(runs)
      printLine(`\nrate: ${spread(ratio)} of ingest and drain (target ${TARGETS.rate})\n`)
      const sides = Object.fromEntries([...runs].map(([side, of]) => [side, spreads(of)]))
      keepResults(`batchfile-${store}`, rounds, { lines, rate_over_jobs: ratio, targets: TARGETS, ...sides })
    }
  },
}

const FIGURES = {
  'a second': ({ perSecond }: Finished) => perSecond,
  'CPU µs': ({ cpuUs }: Finished) => cpuUs,
  'database CPU µs': ({ databaseCpuUs }: Finished) => databaseCpuUs,
  'MiB more': ({ moreMiB }: Finished) => moreMiB,
  'others p99 ms, quiet': ({ quiet }: Finished) => quiet.p99,
  meanwhile: ({ meanwhile }: Finished) => meanwhile.p99,
  ratio: ({ quiet, meanwhile }: Finished) => meanwhile.p99 / quiet.p99,
} as const

function ratioOf(runs: Runs): Spread {
  return ratios(runs.get('file') ?? [], runs.get('jobs') ?? [], ({ perSecond }) => perSecond)
}

function spreads(runs: readonly Finished[]): object {
  return Object.fromEntries(Object.entries(FIGURES).map(([name, of]) => [name, spreadOf(runs.map(of))]))
}

function report(runs: Runs): string {
  const rows = [...runs].map(([side, of]) => [
    side,
    ...Object.values(FIGURES).map((value) => figure(spreadOf(of.map(value)).median)),
  ])
  return table(['side', ...Object.keys(FIGURES)], rows)
}
