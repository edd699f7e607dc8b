/**
 * Sends jobs with callbacks to a running Parley at a steady rate, and measures how soon the hosts that answer get their
 * callbacks.
 */
import { openCallbackDatabase, type StoreName } from '../harness/callback-database.ts'
import { assertThat } from '../harness/invariants.ts'
import type { Rig } from '../harness/load-run.ts'
import type { Receivers } from '../harness/receivers.ts'
import { waitForCount } from '../harness/wait-for-count.ts'
import { sendSteadily } from '../load/batch-sender.ts'
import { monotonicMs } from '../load/monotonic.ts'
import type { Latencies } from '../load/percentiles.ts'
import { countAnswered } from './callbacks-run.ts'

export interface SteadyOptions {
  readonly store: StoreName
  readonly modelPort: number
  readonly concurrency: number
  readonly holes: number
  readonly bytes: number
  readonly perSecond: number
  /** The warm-up is not measured, but the black holes are already silent. */
  readonly warmUpS: number
  readonly measureS: number
}

export interface Steady {
  /** Latency counts from sending the batch until the callback arrives at a host that answers. */
  readonly latencies: Latencies
  readonly lost: number
  readonly parleyBusy: number
  readonly receiversBusy: number
}

const BATCHES_PER_SECOND = 10
const ARRIVED_WITHIN_MS = 300_000
const RECORDED_WITHIN_MS = 10_000

export async function steady(receivers: Receivers, rig: Rig, options: SteadyOptions): Promise<Steady> {
  const { store, holes, bytes, perSecond, warmUpS, measureS } = options
  const there = await openCallbackDatabase(store)
  const parley = await there.start({ modelPort: rig.modelPort, concurrency: options.concurrency })
  const jobsEach = Math.round(perSecond / BATCHES_PER_SECOND)
  const batches = (warmUpS + measureS) * BATCHES_PER_SECOND
  const answered = countAnswered({ callbacks: batches * jobsEach, holes })
  await receivers.expect({ holes, measureFromMs: monotonicMs() + warmUpS * 1000 })
  const read = () => [performance.now(), parley.child.cpuMs(), receivers.child.cpuMs()] as const
  const [fromMs, parleyFromMs, receiversFromMs] = read()
  const jobIds = await sendSteadily({
    port: parley.port,
    keyed: true,
    headers: parley.headers,
    receiversPort: receivers.port,
    bytes,
    batches,
    jobsEach,
    paceMs: 1000 / BATCHES_PER_SECOND,
  })
  const [toMs, parleyToMs, receiversToMs] = read()
  const arrived = async () => (await receivers.report()).callbacks
  await waitForCount(arrived, answered, ARRIVED_WITHIN_MS, parley.child, 'callbacks arrived')
  await waitForCount(
    there.delivered,
    answered,
    RECORDED_WITHIN_MS,
    parley.child,
    'callbacks recorded as delivered',
  )
  await parley.child.stop()
  await there.checkJobs(jobIds, jobIds.length)
  const recorded = await there.delivered()
  await there.remove()
  const report = await receivers.report()
  assertThat(
    jobIds.length === batches * jobsEach,
    `${jobIds.length} of ${batches * jobsEach} jobs were accepted`,
  )
  assertThat(
    recorded === answered,
    `${answered} callbacks arrived, and ${recorded} are recorded as delivered`,
  )
  assertThat(
    report.arrivals === answered,
    `${answered} callbacks are owed to hosts that answer, and ${report.arrivals} arrived`,
  )
  return {
    latencies: report.latencies,
    lost: report.lost,
    parleyBusy: (parleyToMs - parleyFromMs) / (toMs - fromMs),
    receiversBusy: (receiversToMs - receiversFromMs) / (toMs - fromMs),
  }
}
