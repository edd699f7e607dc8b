/**
 * Measures claims on Postgres when the queue is long, and when an old snapshot keeps vacuum from removing claimed rows. A long
 * report or a transaction that somebody left open holds such a snapshot. Two databases on one server take turns.
 */
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import { assertThat } from '../harness/invariants.ts'
import { printLine } from '../harness/output.ts'
import { pgbossMissing } from '../harness/peers.ts'
import { writePicture } from '../harness/picture.ts'
import { Postgres } from '../harness/postgres.ts'
import { keepResults, pictureOf } from '../harness/results.ts'
import { interleaved, ratios, type Spread, spreadOf } from '../harness/rounds.ts'
import { figure, spread, table } from '../harness/table.ts'
import { PgbossQueue } from '../peers/pgboss-queue.ts'
import { claimAll, FIGURES, JOBS_OF_A_ROUND, MANY, type Measured, warmUpClaims } from './backlog-claims.ts'
import { type ClaimPlan, claimPlans } from './claim-plans.ts'
import { fillPostgres } from './fill-by-sql.ts'
import { QueueStore } from './queue-store.ts'

const SHORT = 10_000
const LONG = 1_000_000
const CONTENT = 'x'.repeat(900)
/** The peer makes fewer claims than Parley, because its claims may slow down as its queue grows. */
const PEER_TIMES = { one: 100, many: 20 }
/** The 99th percentile of the peer's claims must be at least this many times Parley's, at the same queue length. */
const PEER_TARGET = 100
const TARGET = 1.25
/** Postgres has no statistics for these tables, as in the first minutes of a new service. */
const NEVER_ANALYZED = ['open_jobs']

const QUEUED = 'select count(*) from open_jobs where turn is not null'

type Side = 'short' | 'long'
type Runs = ReadonlyMap<Side, readonly Measured[]>

export const backlogPostgres: Benchmark = {
  name: 'backlog-postgres',
  about: 'the cost of a claim on Postgres with 10,000 and 1,000,000 queued jobs, also beside an old snapshot',
  async run(options) {
    const postgres = await Postgres.start()
    try {
      await measure(postgres, options)
    } finally {
      await postgres.stop()
    }
  },
}

async function measure(postgres: Postgres, { rounds, ...options }: BenchOptions): Promise<void> {
  const waiting = options.waiting ?? LONG
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
  // Compilation must not count for either side, so the first claims are not measured.
  for (const side of SIDES) await warmUpClaims(stores[side])
  const fresh = await interleaved(SIDES, rounds, (side) => claimAll(stores[side]))
  const peer = await measurePeer(postgres, waiting, rounds)
  const letGo = await holdSnapshots(postgres)
  const old = await interleaved(SIDES, rounds, (side) => claimAll(stores[side]))
  await lookAtPlans('beside an old snapshot')
  await letGo()
  const lengths = { short: SHORT, long: waiting }
  for (const side of SIDES) {
    const queued = await postgres.number(QUEUED, side)
    assertThat(
      queued === lengths[side],
      `${lengths[side]} jobs were queued, and ${queued} are after all claims`,
    )
    await stores[side].close()
  }
  const jobs = rounds * JOBS_OF_A_ROUND
  printLine(
    `\nEach side claimed and settled ${figure(jobs)} jobs fresh, and as many beside the old snapshot.\n`,
  )
  report({ fresh, old }, peer, waiting, rounds, plans)
}

const SIDES = ['short', 'long'] as const

async function filled(postgres: Postgres, side: Side, jobs: number): Promise<QueueStore> {
  await postgres.createDatabase(side)
  const store = await QueueStore.onPostgres(postgres.url(side), () => CONTENT)
  for (const name of NEVER_ANALYZED) {
    await postgres.query(`alter table ${name} set (autovacuum_enabled = false)`, side)
  }
  const startedMs = performance.now()
  await fillPostgres(postgres, side, jobs, CONTENT)
  const seconds = (performance.now() - startedMs) / 1000
  printLine(`${figure(jobs)} jobs written in ${seconds.toFixed(1)} s`)
  return store
}

async function measurePeer(postgres: Postgres, jobs: number, rounds: number): Promise<Measured[]> {
  const missing = pgbossMissing()
  if (missing) {
    printLine(`pg-boss is left out; to measure it: ${missing.how}`)
    return []
  }
  const queue = await PgbossQueue.filled(postgres, 'pgboss', jobs, CONTENT)
  await queue.claims(1, MANY)
  const measured: Measured[] = []
  for (let round = 0; round < rounds; round++) measured.push(await claimAll(queue, PEER_TIMES))
  await queue.close()
  return measured
}

/**
 * Opens one snapshot in each database, because a snapshot affects vacuum only in its own database. Returns a function that
 * releases both.
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
  peer: readonly Measured[],
  waiting: number,
  rounds: number,
  plans: Readonly<Record<string, readonly ClaimPlan[]>>,
): void {
  const compared = compare(runs)
  const rows = compared.map(({ condition, name, short, long, ratio }) => {
    return [`${CONDITIONS[condition]}: ${name}`, figure(short.median), figure(long.median), spread(ratio)]
  })
  printLine(table(['', `${figure(SHORT)} queued`, `${figure(waiting)} queued`, 'ratio'], rows))
  const peerOverOurs = FIGURES.map(({ name, of }) => {
    return { name, peer: spreadOf(peer.map(of)), ratio: ratios(peer, runs.fresh.get('long') ?? [], of) }
  })
  printLine(`Target of each ratio: ${TARGET} or less.\n`)
  for (const { name, peer: theirs, ratio } of peer.length > 0 ? peerOverOurs : []) {
    const target = name.includes('p99') ? ` (target ${PEER_TARGET} or more)` : ''
    printLine(
      `pg-boss with ${figure(waiting)} queued, ${name}: ${figure(theirs.median)}, ÷ ours ${spread(ratio)}${target}`,
    )
  }
  keepResults('backlog-postgres', rounds, {
    lengths: { short: SHORT, long: waiting },
    figures: compared,
    pgboss: peer.length > 0 ? peerOverOurs : null,
    targets: { ratio: TARGET, pgboss_p99_over_ours: PEER_TARGET },
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
  const title = `Postgres: cost with ${figure(waiting)} queued jobs ÷ with ${figure(SHORT)}`
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
