/**
 * Measures the same fixed load on any number of nodes that share a database. Each node first gets as much load as it can take,
 * so that no figure includes compilation.
 */
import { type Rig, runLoad, startRig } from '../harness/load-run.ts'
import { DataFolder, Parley } from '../harness/parley.ts'
import { Postgres } from '../harness/postgres.ts'
import { assertEachSettledOnceOnPostgres } from '../harness/postgres-invariants.ts'
import { writtenBytesOf } from '../harness/process-figures.ts'
import { jobBody } from '../load/bodies.ts'
import type { Latencies } from '../load/percentiles.ts'

export interface NodesOptions {
  /** Null stands for one node on SQLite. */
  readonly nodes: number | null
  readonly perSecond: number
  readonly delayMs: number
  readonly seconds: number
}

export interface NodesCost {
  readonly perSecond: number
  readonly latencies: Latencies
  readonly nodesCpuUs: number
  readonly postgresCpuUs: number
  /**
   * On Postgres, the bytes are WAL. On SQLite, they are everything that is written to the disk, including the database file.
   */
  readonly writtenBytes: number
  readonly commits: number
}

const BYTES = 1024
const CONNECTIONS = 64

export async function nodesRun(options: NodesOptions): Promise<NodesCost> {
  const rig = await startRig({})
  await rig.model.ask({ kind: 'delay', ms: options.delayMs }, 'delayed')
  const cost = await (options.nodes === null
    ? onSqlite(rig, options)
    : onPostgres(rig, options, options.nodes))
  await rig.stop()
  return cost
}

async function onPostgres(rig: Rig, options: NodesOptions, count: number): Promise<NodesCost> {
  const postgres = await Postgres.start()
  const dataFolder = new DataFolder()
  const nodes: Parley[] = []
  for (let node = 0; node < count; node++) {
    nodes.push(await Parley.start({ modelPort: rig.modelPort, database: postgres.url() }, dataFolder))
  }
  const read = async () => {
    const { cpuMs, walBytes, commits } = await postgres.work()
    return { cpuMs, writtenBytes: walBytes, commits }
  }
  const { cost, answers, jobIds } = await measure(rig, nodes, options, read)
  for (const { child } of nodes) await child.stop()
  await assertEachSettledOnceOnPostgres(postgres, jobIds, answers)
  dataFolder.remove()
  await postgres.stop()
  return cost
}

async function onSqlite(rig: Rig, options: NodesOptions): Promise<NodesCost> {
  const parley = await Parley.start({ modelPort: rig.modelPort })
  const read = async () => ({
    cpuMs: 0,
    writtenBytes: writtenBytesOf(parley.child.pid),
    commits: await parley.metric(COMMITS),
  })
  const { cost } = await measure(rig, [parley], options, read)
  await parley.child.stop()
  parley.dataFolder.remove()
  return cost
}

const COMMITS = 'parley_commit_seconds_count'

interface DatabaseReading {
  readonly cpuMs: number
  readonly writtenBytes: number
  readonly commits: number
}

interface Outcome {
  readonly cost: NodesCost
  readonly answers: number
  readonly jobIds: readonly string[]
}

async function measure(
  rig: Rig,
  nodes: readonly Parley[],
  { perSecond, seconds }: NodesOptions,
  read: () => Promise<DatabaseReading>,
): Promise<Outcome> {
  const [first] = nodes
  if (first === undefined) throw new Error('there is no node')
  const target = first.single(jobBody(BYTES))
  const shared = { kind: 'run', target, connections: CONNECTIONS } as const
  const warm = []
  for (const { port } of nodes) {
    const order = { ...shared, ports: [port], warmUpMs: 0, measureMs: seconds * 500 }
    warm.push((await runLoad(rig, order, [])).result)
  }
  const readings: Promise<DatabaseReading>[] = []
  const takeReading = () => readings.push(read())
  const order = {
    ...shared,
    ports: nodes.map(({ port }) => port),
    perSecond,
    warmUpMs: seconds * 250,
    measureMs: seconds * 1000,
  }
  rig.generator.hear('measuring').then(takeReading, takeReading)
  rig.generator.hear('measured').then(takeReading, takeReading)
  const processes = nodes.map(({ child }) => child)
  const { result, sideCpuUs } = await runLoad(rig, order, processes)
  const [from, to] = await Promise.all(readings)
  if (from === undefined || to === undefined) throw new Error('the database was not read')
  const jobs = result.perSecond * seconds
  const all = [...warm, result]
  return {
    cost: {
      perSecond: result.perSecond,
      latencies: result.latencies,
      nodesCpuUs: sideCpuUs,
      postgresCpuUs: ((to.cpuMs - from.cpuMs) * 1000) / jobs,
      writtenBytes: (to.writtenBytes - from.writtenBytes) / jobs,
      commits: (to.commits - from.commits) / jobs,
    },
    answers: all.reduce((sum, { answers }) => sum + answers, 0),
    jobIds: all.flatMap(({ jobIds }) => jobIds),
  }
}
