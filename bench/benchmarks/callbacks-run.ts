/** Measures how fast one side delivers stored callbacks, from the first arrival at a host that answers to the last. */
import { assertThat } from '../harness/invariants.ts'
import type { Receivers } from '../harness/receivers.ts'
import { waitForCount } from '../harness/wait-for-count.ts'
import { blackHoles, HOSTS } from '../load/receiver-hosts.ts'
import {
  type CallbacksSide,
  type CallbacksSideName,
  type CallbacksSideOptions,
  startCallbacksSide,
} from './callbacks-sides.ts'

export interface DeliveryOptions extends Omit<CallbacksSideOptions, 'receiversPort'> {
  readonly holes: number
}

export interface Delivered {
  readonly perSecond: number
  /** CPU times are per callback. `senderCpuUs` covers the process that sends. */
  readonly senderCpuUs: number
  readonly databaseCpuUs: number
  readonly receiversBusy: number
  readonly connections: number
}

const ARRIVED_WITHIN_MS = 600_000
const RECORDED_WITHIN_MS = 10_000

export async function deliver(
  name: CallbacksSideName,
  receivers: Receivers,
  options: DeliveryOptions,
): Promise<Delivered> {
  const side = await startCallbacksSide(name, { ...options, receiversPort: receivers.port })
  const answered = countAnswered(options)
  await receivers.expect({ holes: options.holes, measureFromMs: 0 })
  const sender = await side.begin()
  const read = () => reading(receivers, sender, side)
  const from = await read()
  const arrived = async () => (await receivers.report()).callbacks
  await waitForCount(arrived, answered, ARRIVED_WITHIN_MS, sender, 'callbacks arrived')
  const to = await read()
  await waitForCount(side.delivered, answered, RECORDED_WITHIN_MS, sender, 'callbacks recorded as delivered')
  await side.finish(answered)
  const { arrivals, callbacks, firstAtMs, lastAtMs, connections } = await receivers.report()
  assertThat(callbacks === answered, `${callbacks} of ${answered} callbacks arrived`)
  assertThat(arrivals === answered, `${arrivals - callbacks} callbacks arrived more than once`)
  const each = (of: (reading: Reading) => number) =>
    ((of(to) - of(from)) * 1000) / (to.callbacks - from.callbacks)
  return {
    perSecond: (answered * 1000) / (lastAtMs - firstAtMs),
    senderCpuUs: each(({ senderMs }) => senderMs),
    databaseCpuUs: each(({ databaseMs }) => databaseMs),
    receiversBusy: (to.receiversMs - from.receiversMs) / (to.atMs - from.atMs),
    connections,
  }
}

export function countAnswered({ callbacks, holes }: { callbacks: number; holes: number }): number {
  const silent = blackHoles(holes)
  const indexes = Array.from({ length: callbacks }, (_, index) => index)
  return indexes.filter((index) => !silent.has(index % HOSTS)).length
}

interface Reading {
  readonly atMs: number
  readonly callbacks: number
  readonly senderMs: number
  readonly databaseMs: number
  readonly receiversMs: number
}

async function reading(
  receivers: Receivers,
  sender: { cpuMs(): number },
  { servers }: CallbacksSide,
): Promise<Reading> {
  const { callbacks } = await receivers.report()
  return {
    atMs: performance.now(),
    callbacks,
    senderMs: sender.cpuMs(),
    databaseMs: servers.reduce((sum, server) => sum + server.cpuMs(), 0),
    receiversMs: receivers.child.cpuMs(),
  }
}
