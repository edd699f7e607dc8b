/** One run of load against a target, with the CPU time that each process used in the measured time. */
import type { Order, Phase, RunResult } from '../load/generator.ts'
import { type Child, startScript } from './child.ts'
import { assertThat } from './invariants.ts'

/** The generator and the model server, used by all sides in turn. */
export interface Rig {
  readonly generator: Child
  readonly model: Child
  readonly modelPort: number
  stop(): Promise<void>
}

export interface RigOptions {
  readonly openFiles?: number
}

export async function startRig({ openFiles }: RigOptions): Promise<Rig> {
  const shared = { ...(openFiles !== undefined && { openFiles }) }
  const [model, generator] = await Promise.all([
    startScript<{ port: number }>(new URL('../load/mock-model.ts', import.meta.url), {
      ...shared,
      name: 'mock model',
      settings: { delayMs: 0 },
    }),
    startScript(new URL('../load/generator.ts', import.meta.url), { ...shared, name: 'generator' }),
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

/** Something that uses CPU time: a process, or a server with many. */
export interface Worked {
  cpuMs(): number
}

export interface Run {
  readonly result: RunResult
  /** CPU time per answer in microseconds: of the side's processes, and of generator and model together. */
  readonly sideCpuUs: number
  readonly rigCpuUs: number
  /** How busy generator and model were, as a share of one core each. */
  readonly generatorBusy: number
  readonly modelBusy: number
}

export async function runLoad(
  rig: Rig,
  order: Extract<Order, { kind: 'run' }>,
  side: readonly Worked[],
): Promise<Run> {
  const cpu = (processes: readonly Worked[]) => processes.reduce((sum, process) => sum + process.cpuMs(), 0)
  const reading = () => ({
    side: cpu(side),
    generator: rig.generator.cpuMs(),
    model: rig.model.cpuMs(),
  })
  const ended = rig.generator.hear<RunResult>('result')
  const measuring = rig.generator.hear<Phase>('measuring').then(reading)
  const measured = rig.generator.hear<Phase>('measured').then(reading)
  rig.generator.tell(order)
  const [result, from, to] = await Promise.all([ended, measuring, measured])
  assertThat(result.failures.length === 0, `wrong answers, such as: ${result.failures[0]}`)
  const answers = (result.perSecond * order.measureMs) / 1000
  const usEach = (ms: number) => (ms * 1000) / answers
  return {
    result,
    sideCpuUs: usEach(to.side - from.side),
    rigCpuUs: usEach(to.generator + to.model - from.generator - from.model),
    generatorBusy: (to.generator - from.generator) / order.measureMs,
    modelBusy: (to.model - from.model) / order.measureMs,
  }
}
