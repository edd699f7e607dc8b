/** Measures the CPU time of jobs in batches for `compare.ts`. Several clones of Parley on SQLite do the same work in turns. */
import { batchBody, jobBody } from '../load/bodies.ts'
import type { Target } from '../load/generator.ts'
import { HOSTS, urlOf } from '../load/receiver-hosts.ts'
import { type Rig, runLoad } from './load-run.ts'
import { Parley } from './parley.ts'
import { type Receivers, startReceivers } from './receivers.ts'
import { waitForCount } from './wait-for-count.ts'

/** With `drain`, a job has ended when it is settled. With `callbacks`, it has ended when its callback is delivered. */
export type BatchName = 'drain' | 'callbacks'

const BYTES = 1024
const CONNECTIONS = 8
const JOBS_EACH = 30
const RECEIVER_DELAY_MS = 5
const SETTLED_WITHIN_MS = 120_000
const ENDED = {
  drain: { metric: 'parley_jobs_total', label: 'outcome="completed"' },
  callbacks: { metric: 'parley_callbacks_total', label: 'outcome="delivered"' },
} as const

export class CompareBatches<Side extends string> {
  readonly #rig: Rig
  readonly #receivers: Receivers
  readonly #sides: ReadonlyMap<Side, Parley>

  private constructor(rig: Rig, receivers: Receivers, sides: ReadonlyMap<Side, Parley>) {
    this.#rig = rig
    this.#receivers = receivers
    this.#sides = sides
  }

  /** @param mains the `main.ts` of each side, or null for this clone's */
  static async start<Side extends string>(
    rig: Rig,
    mains: ReadonlyMap<Side, string | null>,
  ): Promise<CompareBatches<Side>> {
    const receivers = await startReceivers(RECEIVER_DELAY_MS)
    const sides = new Map<Side, Parley>()
    for (const [side, main] of mains) {
      const clone = main !== null && { main }
      const callbacks = { allow_networks: ['127.0.0.0/8'] }
      sides.set(side, await Parley.start({ modelPort: rig.modelPort, callbacks, ...clone }))
    }
    return new CompareBatches(rig, receivers, sides)
  }

  async cpuUs(side: Side, name: BatchName, measureMs: number): Promise<number> {
    const parley = this.#sides.get(side)
    if (parley === undefined) throw new Error(`there is no side ${side}`)
    const { metric, label } = ENDED[name]
    const ended = () => parley.sumOf(metric, label)
    const target = this.#target(parley, name)
    const [before, fromMs] = [await ended(), parley.child.cpuMs()]
    const order = { kind: 'run', target, connections: CONNECTIONS, warmUpMs: 0, measureMs } as const
    const { result } = await runLoad(this.#rig, order, [parley.child])
    const jobs = result.answers * JOBS_EACH
    await waitForCount(ended, before + jobs, SETTLED_WITHIN_MS, parley.child, 'jobs ended')
    return ((parley.child.cpuMs() - fromMs) * 1000) / jobs
  }

  #target(parley: Parley, name: BatchName): Target {
    if (name === 'drain') return parley.batch(batchBody(JOBS_EACH, BYTES))
    const form = jobBody(BYTES).slice(0, -1)
    const job = (_: unknown, index: number) => {
      const callback = { callback_url: urlOf(index % HOSTS, this.#receivers.port) }
      return `${form},"callback":${JSON.stringify(callback)}}`
    }
    return parley.batch(`[${Array.from({ length: JOBS_EACH }, job).join(',')}]`)
  }

  async stop(): Promise<void> {
    for (const { child, dataFolder } of this.#sides.values()) {
      await child.stop()
      dataFolder.remove()
    }
    await this.#receivers.child.stop()
  }
}
