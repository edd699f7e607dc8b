/** Puts a load on a target once, and measures the CPU time that each process used. */
import type { Order, Phase, RunResult } from '../load/generator.ts'
import { type Child, startScript } from './child.ts'
import { assertThat } from './invariants.ts'

export interface Rig {
  readonly generator: Child
  readonly model: Child
  readonly modelPort: number
  stop(): Promise<void>
}

export interface RigOptions {
  readonly openFiles?: number
  readonly generator?: URL
}

const GENERATOR = new URL('../load/generator.ts', import.meta.url)

export async function startRig({ openFiles, generator: script = GENERATOR }: RigOptions): Promise<Rig> {
  const shared = { ...(openFiles !== undefined && { openFiles }) }
  const [model, generator] = await Promise.all([
    startScript<{ port: number }>(new URL('../load/mock-model.ts', import.meta.url), {
      ...shared,
      name: 'mock model',
      settings: { delayMs: 0 },
    }),
    startScript(script, { ...shared, name: 'generator' }),
  ])
  return {
    generator: generator.child,
    model: model.child,
    modelPort: model.ready.port,
    stop: async () => {
      await Promise.all([generator.child.stop(), model.child.stop()])
    },
  }
}

/** A process, or a server with several processes, whose CPU time is measured. */
export interface Worked {
  cpuMs(): number
  disk?(): Promise<DiskWork>
  rssBytes?(): number
}

/** The numbers count since the start. NaN stands for an unknown number. */
export interface DiskWork {
  readonly writtenBytes: number
  /** These bytes of Postgres's write-ahead log are part of `writtenBytes`. */
  readonly walBytes: number
  readonly syncs: number
}

export interface Run {
  readonly result: RunResult
  /** CPU times are per answer. `rigCpuUs` covers the generator and the model. */
  readonly sideCpuUs: number
  readonly processesCpuUs: readonly number[]
  /** The figures are per answer, and cover only processes whose disk work is known. */
  readonly disk: DiskWork
  readonly rssBytes: number
  readonly rigCpuUs: number
  readonly generatorBusy: number
  readonly modelBusy: number
}

export async function runLoad(
  rig: Rig,
  order: Extract<Order, { kind: 'run' }>,
  side: readonly Worked[],
): Promise<Run> {
  const reading = async () => {
    const cpuMs = {
      side: side.map((process) => process.cpuMs()),
      generator: rig.generator.cpuMs(),
      model: rig.model.cpuMs(),
      rssBytes: rssBytesOf(side),
    }
    return { ...cpuMs, disk: await diskOf(side) }
  }
  const ended = rig.generator.hear<RunResult>('result')
  const measuring = rig.generator.hear<Phase>('measuring').then(reading)
  const measured = rig.generator.hear<Phase>('measured').then(reading)
  rig.generator.tell(order)
  const [result, from, to] = await Promise.all([ended, measuring, measured])
  assertThat(result.failures.length === 0, `wrong answers, such as: ${result.failures[0]}`)
  const answers = (result.perSecond * order.measureMs) / 1000
  const usEach = (ms: number) => (ms * 1000) / answers
  const processesCpuUs = to.side.map((ms, at) => usEach(ms - (from.side[at] ?? 0)))
  return {
    result,
    sideCpuUs: processesCpuUs.reduce((sum, us) => sum + us, 0),
    processesCpuUs,
    disk: {
      writtenBytes: (to.disk.writtenBytes - from.disk.writtenBytes) / answers,
      walBytes: (to.disk.walBytes - from.disk.walBytes) / answers,
      syncs: (to.disk.syncs - from.disk.syncs) / answers,
    },
    rssBytes: to.rssBytes,
    rigCpuUs: usEach(to.generator + to.model - from.generator - from.model),
    generatorBusy: (to.generator - from.generator) / order.measureMs,
    modelBusy: (to.model - from.model) / order.measureMs,
  }
}

export function rssBytesOf(side: readonly Worked[]): number {
  return side.reduce((sum, process) => sum + (process.rssBytes?.() ?? 0), 0)
}

async function diskOf(side: readonly Worked[]): Promise<DiskWork> {
  const known = await Promise.all(side.flatMap((process) => process.disk?.() ?? []))
  const sum = (of: (work: DiskWork) => number) =>
    known.length === 0 ? Number.NaN : known.reduce((total, work) => total + of(work), 0)
  return {
    writtenBytes: sum(({ writtenBytes }) => writtenBytes),
    walBytes: sum(({ walBytes }) => walBytes),
    syncs: sum(({ syncs }) => syncs),
  }
}
