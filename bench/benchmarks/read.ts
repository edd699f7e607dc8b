/**
 * Measures reads of single jobs, 70% of them pending, with API keys and limits. Compares Parley on SQLite with a node:http
 * server that sends the same bytes from memory.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { type Child, startScript } from '../harness/child.ts'
import { assertThat } from '../harness/invariants.ts'
import { type Rig, type Run, runLoad, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { Parley } from '../harness/parley.ts'
import { writePicture } from '../harness/picture.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { waitForCount } from '../harness/wait-for-count.ts'
import { batchBody } from '../load/bodies.ts'
import { correlationIdGenerator } from '../load/correlation-id.ts'
import type { Target } from '../load/generator.ts'
import { CORRELATION_ID_PLACEHOLDER } from '../load/request.ts'
import type { BareAnswers } from '../peers/bare-read.ts'

const BYTES = 1024
const CONNECTIONS = 64
const JOBS_EACH = 30
const COMPLETED_BATCHES = 100
const PENDING_BATCHES = 234
const ENDED_WITHIN_MS = 60_000
const TARGET = 0.75
/** node:http adds these headers itself. */
const OWN_HEADERS = new Set(['date', 'connection', 'keep-alive', 'content-length', 'transfer-encoding'])

type SideName = 'parley' | 'bare'
const TITLES: Readonly<Record<SideName, string>> = { parley: 'Parley', bare: 'node:http, the same bytes' }

export const read: Benchmark = {
  name: 'read',
  about: 'reads of jobs by their id, against node:http that sends the same bytes',
  async run(options) {
    const rig = await startRig({})
    const stored = await storeJobs(rig)
    const bare = await startBare(stored)
    const targets = { parley: stored.target, bare: { ...stored.target, port: bare.port } }
    const processes = { parley: stored.parley.child, bare: bare.child }
    const runs = await interleaved(['parley', 'bare'], options.rounds, (side) =>
      measure(rig, targets[side], processes[side], options),
    )
    await rig.model.ask({ kind: 'release', overMs: 0 }, 'released')
    await Promise.all([bare.child.stop(), stored.parley.child.stop()])
    stored.parley.dataFolder.remove()
    await rig.stop()
    report(runs.get('parley') ?? [], runs.get('bare') ?? [], options)
  },
}

interface StoredJobs {
  readonly parley: Parley
  readonly target: Target
}

/** The only slot runs a job whose call is never answered, so all other new jobs stay queued. */
async function storeJobs(rig: Rig): Promise<StoredJobs> {
  const parley = await Parley.start({ modelPort: rig.modelPort, concurrency: 1 })
  const completed = await createBatches(parley, COMPLETED_BATCHES)
  const ended = () => parley.sumOf('parley_jobs_total', 'outcome="completed"')
  await waitForCount(ended, completed.length, ENDED_WITHIN_MS, parley.child, 'jobs completed')
  await rig.model.ask({ kind: 'hold', timed: false }, 'holding')
  const pending = await createBatches(parley, PENDING_BATCHES)
  const paths = mixed(completed, pending).map((id) => `/api/v1/messages/${id}`)
  const target: Target = {
    ...parley.single(''),
    method: 'GET',
    path: paths[0] ?? '',
    paths,
    expect: { status: 200, text: '"success":true', correlationId: false },
  }
  return { parley, target }
}

const nextCorrelationId = correlationIdGenerator()

async function createBatches(parley: Parley, batches: number): Promise<string[]> {
  const { port, path, headers } = parley.batch('')
  const ids: string[] = []
  for (let batch = 0; batch < batches; batch++) {
    const body = batchBody(JOBS_EACH, BYTES).replaceAll(CORRELATION_ID_PLACEHOLDER, nextCorrelationId)
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers, body })
    assertThat(answer.status === 202, `a batch was answered with ${answer.status}`)
    ids.push(...((await answer.json()) as { data: { job_ids: string[] } }).data.job_ids)
  }
  return ids
}

function mixed(few: readonly string[], many: readonly string[]): string[] {
  const rounds = Math.floor(Math.min(few.length / 3, many.length / 7))
  return Array.from({ length: rounds }, (_, round) => [
    ...few.slice(3 * round, 3 * round + 3),
    ...many.slice(7 * round, 7 * round + 7),
  ]).flat()
}

async function startBare({ target }: StoredJobs): Promise<{ child: Child; port: number }> {
  const script = new URL('../peers/bare-read.ts', import.meta.url)
  const { child, ready } = await startScript<{ port: number }>(script, { name: 'bare reads' })
  const bodies: [string, string][] = []
  let headers = {}
  for (const path of target.paths ?? []) {
    const answer = await fetch(`http://127.0.0.1:${target.port}${path}`, { headers: target.headers })
    headers = Object.fromEntries([...answer.headers].filter(([name]) => !OWN_HEADERS.has(name)))
    bodies.push([path, await answer.text()])
  }
  const answers: BareAnswers = { kind: 'answers', headers, bodies }
  await child.ask(answers, 'stored')
  return { child, port: ready.port }
}

function measure(rig: Rig, target: Target, side: Child, { seconds }: BenchOptions): Promise<Run> {
  const order = {
    kind: 'run',
    target,
    connections: CONNECTIONS,
    warmUpMs: seconds * 500,
    measureMs: seconds * 1000,
  } as const
  return runLoad(rig, order, [side])
}

function report(ours: readonly Run[], theirs: readonly Run[], { rounds }: BenchOptions): void {
  const rate = ratios(ours, theirs, ({ result }) => result.perSecond)
  const cpu = ratios(ours, theirs, ({ sideCpuUs }) => sideCpuUs)
  const row = (side: SideName, runs: readonly Run[]) => {
    const middle = (of: (run: Run) => number) => figure(spreadOf(runs.map(of)).median)
    return [
      TITLES[side],
      middle(({ result }) => result.perSecond),
      middle(({ result }) => result.latencies.p50),
      middle(({ result }) => result.latencies.p99),
      middle(({ sideCpuUs }) => sideCpuUs),
    ]
  }
  printLine(
    table(['side', 'a second', 'p50 ms', 'p99 ms', 'CPU µs'], [row('parley', ours), row('bare', theirs)]),
  )
  printLine(`Parley ÷ node:http: rate ${spread(rate)} (target ${TARGET} or more), CPU ${spread(cpu)}`)
  keepResults('read', rounds, { rate_over_bare: rate, cpu_over_bare: cpu, target: TARGET })
  const { median: value, min, max } = rate
  const bars = [{ label: '÷ node:http', value, min, max, ours: true, target: TARGET }]
  const note = 'Ours divided by theirs: median, range over the rounds, target (dashed).'
  writePicture(pictureOf('read'), 'Reads of single jobs, 70% of them pending', note, [
    { title: 'Reads a second', unit: '×', bars },
  ])
}
