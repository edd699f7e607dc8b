/**
 * Keeps sides alive over all rounds. The runtime compiles for its first ten seconds, so rounds with new processes would mostly
 * measure that. Each side starts with an empty database, is warmed up once, and is checked at its end with everything that it
 * answered.
 */
import type { Order } from '../load/generator.ts'
import { type Rig, type Run, runLoad } from './load-run.ts'
import type { Side } from './sides.ts'

type Load = Omit<Extract<Order, { kind: 'run' }>, 'kind' | 'target'>

interface Live {
  readonly side: Side
  readonly jobIds: string[]
  answers: number
}

export class LiveSides<Name extends string> {
  readonly #rig: Rig
  readonly #sides: ReadonlyMap<Name, Live>

  private constructor(rig: Rig, sides: ReadonlyMap<Name, Live>) {
    this.#rig = rig
    this.#sides = sides
  }

  static async start<Name extends string>(
    rig: Rig,
    names: readonly Name[],
    start: (name: Name) => Promise<Side>,
    warmUp: Load | null,
  ): Promise<LiveSides<Name>> {
    const sides = new Map<Name, Live>()
    for (const name of names) sides.set(name, { side: await start(name), jobIds: [], answers: 0 })
    const live = new LiveSides(rig, sides)
    if (warmUp !== null) for (const name of names) await live.run(name, warmUp)
    return live
  }

  async run(name: Name, load: Load, target?: Side['target']): Promise<Run> {
    const live = this.#sides.get(name)
    if (live === undefined) throw new Error(`there is no side ${name}`)
    const { side, jobIds } = live
    const run = await runLoad(
      this.#rig,
      { kind: 'run', target: target ?? side.target, ...load },
      side.processes,
    )
    live.answers += run.result.answers
    for (const id of run.result.jobIds) jobIds.push(id)
    // The side already has the IDs, so the results need not keep them.
    return { ...run, result: { ...run.result, jobIds: [] } }
  }

  async finish(): Promise<void> {
    for (const { side, jobIds, answers } of this.#sides.values()) await side.finish({ answers, jobIds })
  }
}
