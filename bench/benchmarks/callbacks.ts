/**
 * Measures callbacks to 100 hosts that answer after 50 ms. One part measures how fast stored callbacks are delivered, compared
 * with a bare loop and BullMQ. The other measures whether hosts that never answer delay callbacks to others.
 */
import { DEFAULTS } from '../../src/config/settings.ts'
import type { Benchmark, BenchOptions } from '../harness/benchmark.ts'
import type { StoreName } from '../harness/callback-database.ts'
import { type Rig, startRig } from '../harness/load-run.ts'
import { printLine } from '../harness/output.ts'
import { bullmqMissing } from '../harness/peers.ts'
import { type Receivers, startReceivers } from '../harness/receivers.ts'
import { interleaved } from '../harness/rounds.ts'
import { figure } from '../harness/table.ts'
import {
  type Delivery,
  type DeliveryCondition,
  keepDeliveries,
  keepSteady,
  reportDeliveries,
  reportSteady,
  type SteadyRuns,
} from './callbacks-report.ts'
import { deliver } from './callbacks-run.ts'
import type { CallbacksSideName } from './callbacks-sides.ts'
import { steady } from './callbacks-steady.ts'

const DELAY_MS = 50
const BYTES = 1024
const HOLES = 10
const TIMEOUT_MS = DEFAULTS.callbacks.timeout_seconds * 1000
const PER_SECOND = 250
/** The steady load lasts `--seconds` times this factor, which must be longer than the deadline of a delivery attempt. */
const STEADY_TIMES = 4

const CONDITIONS: Readonly<Record<StoreName, readonly DeliveryCondition[]>> = {
  sqlite: [
    { holes: 0, sides: ['parley', 'bare', 'bullmq'] },
    // BullMQ cannot take part: without a limit per host, the black holes would occupy all its slots.
    { holes: HOLES, sides: ['parley', 'bare'] },
  ],
  postgres: [
    { holes: 0, sides: ['parley', 'bare'] },
    { holes: HOLES, sides: ['parley', 'bare'] },
  ],
}

export const callbacks: Benchmark = {
  name: 'callbacks',
  about: 'owed callbacks to 100 hosts, some of them black holes, against a bare undici loop and BullMQ',
  run: (options) => runDeliveries('callbacks', 'sqlite', options),
}

export const callbacksPostgres: Benchmark = {
  name: 'callbacks-postgres',
  about: 'callbacks on Postgres to the same hosts, against the bare loop',
  run: (options) => runDeliveries('callbacks-postgres', 'postgres', options),
}

export const callbacksSteady: Benchmark = {
  name: 'callbacks-steady',
  about: 'how soon callbacks arrive under a steady load, with black holes against without',
  async run(options) {
    const rig = await startRig({})
    const receivers = await startReceivers(DELAY_MS)
    const runs = await measureSteady('sqlite', rig, receivers, options)
    await receivers.child.stop()
    await rig.stop()
    printLine()
    printLine(reportSteady(runs))
    keepSteady('callbacks-steady', runs, options)
  },
}

async function runDeliveries(name: string, store: StoreName, options: BenchOptions): Promise<void> {
  const missing = bullmqMissing()
  const conditions = CONDITIONS[store].map(({ holes, sides }) => ({
    holes,
    sides: sides.filter((side) => side !== 'bullmq' || missing === null),
  }))
  if (store === 'sqlite') {
    printLine(missing ? `BullMQ is left out; to measure it: ${missing.how}` : LEFT_OUT.bullmq)
  }
  printLine(LEFT_OUT.bare)
  const rig = await startRig({})
  const receivers = await startReceivers(DELAY_MS)
  const deliveries: Delivery[] = []
  for (const condition of conditions) {
    deliveries.push(await measureDelivery(store, condition, rig, receivers, options))
  }
  await receivers.child.stop()
  await rig.stop()
  printLine()
  printLine(reportDeliveries(deliveries))
  keepDeliveries(name, deliveries, options)
}

const LEFT_OUT = {
  bullmq: 'BullMQ leaves out: the guard of addresses, a limit for each host, the job that it tells of',
  bare: 'the bare loop leaves out: all storage, retries, the guard of addresses; its signatures are made before',
} as const

async function measureDelivery(
  store: StoreName,
  condition: DeliveryCondition,
  rig: Rig,
  receivers: Receivers,
  options: BenchOptions,
): Promise<Delivery> {
  const { holes, sides } = condition
  const runs = await interleaved<CallbacksSideName, Awaited<ReturnType<typeof deliver>>>(
    sides,
    options.rounds,
    async (side) => {
      const delivered = await deliver(side, receivers, {
        store,
        modelPort: rig.modelPort,
        callbacks: options.callbacks,
        bytes: BYTES,
        concurrency: options.concurrency,
        timeoutMs: TIMEOUT_MS,
        holes,
      })
      printLine(`${side}, ${holes} black holes: ${figure(delivered.perSecond)} callbacks a second`)
      return delivered
    },
  )
  return { condition, runs }
}

async function measureSteady(
  store: StoreName,
  rig: Rig,
  receivers: Receivers,
  { rounds, seconds, concurrency }: BenchOptions,
): Promise<SteadyRuns> {
  return interleaved(['without', 'with'] as const, rounds, async (side) => {
    const holes = side === 'with' ? HOLES : 0
    const run = await steady(receivers, rig, {
      store,
      modelPort: rig.modelPort,
      concurrency,
      holes,
      bytes: BYTES,
      perSecond: PER_SECOND,
      warmUpS: seconds,
      measureS: seconds * STEADY_TIMES,
    })
    printLine(`${PER_SECOND} a second, ${holes} black holes: p99 ${figure(run.latencies.p99)} ms`)
    return run
  })
}
