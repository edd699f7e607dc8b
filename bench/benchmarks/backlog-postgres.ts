/**
 * The cost of a claim on Postgres when the queue is long, and when an old snapshot (from a report that runs for hours, or a
 * transaction left open) prevents vacuum from removing claimed rows. Compares two databases on one server, in alternating
 * turns.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { printLine } from '../harness/output.ts'
import { writePicture } from '../harness/picture.ts'
import { Postgres } from '../harness/postgres.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { type Latencies, summarise } from '../load/percentiles.ts'
import { type ClaimPlan, claimPlans } from './claim-plans.ts'
import { QueueStore } from './queue-store.ts'

const SHORT = 10_000
const CONTENT = 'x'.repeat(900)
const CLAIMS_OF_ONE = 400
const CLAIMS_OF_MANY = 80
const MANY = 256
const TARGET = 1.25
/** The state while a table is being filled: its rows are not analyzed yet, as in the first minutes of a new service. */
const NEVER_ANALYZED = ['open_jobs']

interface Measured {
  readonly one: Latencies
  readonly many: Latencies
  /** Jobs claimed, settled and replaced per second, in claims of MANY. */
  readonly drainedPerSecond: number
}

type Side = 'short' | 'long'
type Runs = ReadonlyMap<Side, readonly Measured[]>
type Stores = Readonly<Record<Side, QueueStore>>

export const backlogPostgres: Benchmark = {
  name: 'backlog-postgres',
  about:
    'the cost of a claim on Postgres with 10,000 and 1,000,000 waiting jobs, also beside an old snapshot',
  async run(options) {
    const postgres = await Postgres.start()
    try {
      await measure(postgres, options)
    } finally {
      await postgres.stop()
    }
  },
}

async function measure(postgres: Postgres, { rounds, waiting }: BenchOptions): Promise<void> {
  const plans: Record<string, ClaimPlan[]> = {}
  const lookAtPlans = async (when: string) => {
    const from = async (limit: number, place: 'floor' | 'front') => claimPlans(postgres, 'long', limit, place)
    plans[when] = [...(await from(1, 'floor')), ...(await from(MANY, 'floor')), ...(await from(1, 'front'))]
    printLine(reportPlans(when, plans[when]))
  }
  const stores = {
    short: await filled(postgres, 'short', SHORT),
    long: await filled(postgres, 'long', waiting),
  }
  await lookAtPlans('never analyzed')
  for (const side of SIDES) {
    for (const name of NEVER_ANALYZED) {
      await postgres.query(`alter table ${name} reset (autovacuum_enabled)`, side)
    }
    await postgres.settle(side)
  }
  await lookAtPlans('fresh')
  // An unmeasured first run, so that neither side pays for compilation.
  for (const side of SIDES) await claimAll(stores[side])
  const fresh = await interleaved(SIDES, rounds, (side) => claimAll(stores[side]))
  const letGo = await holdSnapshots(postgres)
  const old = await interleaved(SIDES, rounds, (side) => claimAll(stores[side]))
  await lookAtPlans('beside an old snapshot')
  await letGo()
  for (const side of SIDES) await stores[side].close()
  const jobs = rounds * (CLAIMS_OF_ONE + CLAIMS_OF_MANY * MANY)
  printLine(
    `\nEach side claimed and settled ${figure(jobs)} jobs fresh, and as many beside the old snapshot.\n`,
  )
  report({ fresh, old }, waiting, rounds, plans)
}

const SIDES = ['short', 'long'] as const

async function filled(postgres: Postgres, side: Side, jobs: number): Promise<QueueStore> {
  await postgres.createDatabase(side)
  const store = await QueueStore.onPostgres(postgres.url(side), () => CONTENT)
  for (const name of NEVER_ANALYZED) {
    await postgres.query(`alter table ${name} set (autovacuum_enabled = false)`, side)
  }
  const startedMs = performance.now()
  await store.fill(jobs)
  const seconds = (performance.now() - startedMs) / 1000
  printLine(`${figure(jobs)} jobs accepted in ${seconds.toFixed(1)} s`)
  return store
}

/**
 * A snapshot holds back vacuum only in its own database, so each database gets one. Returns a function that releases them.
 */
async function holdSnapshots(postgres: Postgres): Promise<() => Promise<void>> {
  const clients = await Promise.all(SIDES.map((side) => postgres.connect(side)))
  for (const client of clients) {
    await client.query('begin isolation level repeatable read')
    await client.query('select 1 from schema_version')
  }
  return async () => {
    await Promise.all(clients.map((client) => client.end()))
  }
}

async function claimAll(store: Stores[Side]): Promise<Measured> {
  const one = await store.claims(CLAIMS_OF_ONE, 1)
  const startedMs = performance.now()
  const many = await store.claims(CLAIMS_OF_MANY, MANY)
  const drainedPerSecond = (CLAIMS_OF_MANY * MANY * 1000) / (performance.now() - startedMs)
  return { one: summarise(one), many: summarise(many), drainedPerSecond }
}

const FIGURES: readonly { readonly name: string; readonly of: (measured: Measured) => number }[] = [
  { name: 'claim of 1, p50 ms', of: ({ one }) => one.p50 },
  { name: 'claim of 1, p99 ms', of: ({ one }) => one.p99 },
  { name: `claim of ${MANY}, p50 ms`, of: ({ many }) => many.p50 },
  { name: `claim of ${MANY}, p99 ms`, of: ({ many }) => many.p99 },
  { name: 'cost of a drained job, µs', of: ({ drainedPerSecond }) => 1e6 / drainedPerSecond },
]

const CONDITIONS = { fresh: 'fresh', old: 'beside an old snapshot' } as const
type Condition = keyof typeof CONDITIONS

interface Compared {
  readonly condition: Condition
  readonly name: string
  readonly short: Spread
  readonly long: Spread
  readonly ratio: Spread
}

function compare(runs: Readonly<Record<Condition, Runs>>): Compared[] {
  return (['fresh', 'old'] as const).flatMap((condition) => {
    const [short, long] = [runs[condition].get('short') ?? [], runs[condition].get('long') ?? []]
    return FIGURES.map(({ name, of }) => ({
      condition,
      name,
      short: spreadOf(short.map(of)),
      long: spreadOf(long.map(of)),
      ratio: ratios(long, short, of),
    }))
  })
}

function report(
  runs: Readonly<Record<Condition, Runs>>,
  waiting: number,
  rounds: number,
  plans: Readonly<Record<string, readonly ClaimPlan[]>>,
): void {
  const compared = compare(runs)
  const rows = compared.map(({ condition, name, short, long, ratio }) => {
    return [`${CONDITIONS[condition]}: ${name}`, figure(short.median), figure(long.median), spread(ratio)]
  })
  printLine(table(['', `${figure(SHORT)} waiting`, `${figure(waiting)} waiting`, 'ratio'], rows))
  keepResults('backlog-postgres', rounds, {
    lengths: { short: SHORT, long: waiting },
    figures: compared,
    plans,
  })
  const panels = (['fresh', 'old'] as const).map((condition) => ({
    title: CONDITIONS[condition],
    unit: '×',
    bars: compared
      .filter((one) => one.condition === condition)
      .map(({ name, ratio: { median, min, max } }) => {
        const label = name.replace(/ (ms|µs)$/, '')
        return { label, value: median, min, max, ours: true, target: TARGET }
      }),
  }))
  const title = `Postgres: cost with ${figure(waiting)} waiting jobs ÷ with ${figure(SHORT)}`
  const note = 'Median of rounds in turns, their range, and the target (dashed).'
  writePicture(pictureOf('backlog-postgres'), title, note, panels)
}

function reportPlans(when: string, plans: readonly ClaimPlan[]): string {
  const lines = plans.map(({ jobs, from, values, ms, pages, scans, whole }) => {
    const read = whole.length === 0 ? '' : ` READS WHOLE: ${whole.join(', ')};`
    return `  claim of ${jobs} from the ${from}, planned for ${values} values: ${ms.toFixed(2)} ms, ${pages} pages;${read} ${scans.join(', ')}`
  })
  return [`\nPlan of a claim, ${when}:`, ...lines].join('\n')
}
