/**
 * What is read from the running parts at the moment of a scrape. A database that does not answer takes none of the rest
 * with it: what only it knows is then left out, and `parley_ready` says 0.
 */
import { getHeapStatistics } from 'node:v8'
import { Gauge, type Registry } from 'prom-client'
import type { Clock } from '../clock.ts'
import { type CallbackDepth, COUNTED, type DeliveryQueueName } from '../store/callback-store.ts'
import type { Depth } from '../store/store.ts'
import type { UpstreamState } from '../upstreams/router.ts'
import type { Disk } from './disk.ts'
import { withTimeout } from './with-timeout.ts'

export interface Gauges {
  /** Rejects when a job could not be accepted now. */
  ready(): Promise<void>
  depth(): Promise<Depth>
  callbackDepth(): Promise<CallbackDepth>
  callbacksUnderWay(): Readonly<Record<DeliveryQueueName, number>>
  running(): number
  waiters(): number
  upstreams(): readonly UpstreamState[]
  /** Of the disk that the database file is on; null where it is no file. */
  disk(): Promise<Disk | null>
  readonly places: { readonly jobs: number; readonly waiters: number }
  readonly about: { readonly version: string; readonly role: string; readonly store: string }
  readonly clock: Clock
}

export function watch(registry: Registry, gauges: Gauges): void {
  const { clock, places, about } = gauges
  const add = adderTo(registry)
  const ready = withTimeout(clock, () => gauges.ready().then(() => true))
  const depth = withTimeout(clock, gauges.depth)
  const callbacks = withTimeout(clock, gauges.callbackDepth)
  const disk = withTimeout(clock, gauges.disk)
  const age = (sinceMs: number | null) => (sinceMs === null ? 0 : Math.max(0, clock.nowMs() - sinceMs) / 1000)

  add('info', '1, with what runs here as labels.', (set) => set(1, about), ['version', 'role', 'store'])
  add('ready', '1 while a job can be accepted here, as /readyz says.', async (set) =>
    set((await ready()) ? 1 : 0),
  )
  const fromDepth = (name: string, help: string, read: (found: Depth) => number) =>
    add(name, help, async (set) => set(readIf(await depth(), read)))
  fromDepth('queue_jobs', 'Jobs that wait to be claimed.', ({ waiting }) => waiting)
  fromDepth('jobs_assigned', 'Jobs that a node holds.', ({ assigned }) => assigned)
  fromDepth('queue_oldest_age_seconds', 'Age of the oldest waiting job.', ({ oldestCreatedAtMs }) =>
    age(oldestCreatedAtMs),
  )
  add('jobs_running', 'Jobs in hand on this node.', (set) => set(gauges.running()))
  add('job_places', 'Jobs that this node may have in hand.', (set) => set(places.jobs))
  add('waiters', 'Single creates that wait on this node.', (set) => set(gauges.waiters()))
  add('waiter_places', 'Single creates that may wait on this node.', (set) => set(places.waiters))

  const upTo = `, counted up to ${COUNTED}.`
  const fromCallbacks = (name: string, help: string, read: (found: CallbackDepth) => number) =>
    add(name, help, async (set) => set(readIf(await callbacks(), read)))
  fromCallbacks('callbacks_owed', `Callbacks not delivered yet${upTo}`, ({ owed }) => owed)
  fromCallbacks('callbacks_failed', `Callbacks that failed for good and are kept${upTo}`, (f) => f.failed)
  fromCallbacks(
    'callbacks_late_seconds',
    'How long the callback that is due for longest has been so.',
    ({ earliestDueMs }) => age(earliestDueMs),
  )
  const byLane = (set: SetValue) => {
    for (const [lane, count] of Object.entries(gauges.callbacksUnderWay())) set(count, { lane })
  }
  add('callbacks_under_way', 'Attempts under way on this node.', byLane, ['lane'])

  const calls = 'Calls under way, waiting for a place, and places in all.'
  add('upstream_calls', calls, (set) => setCalls(gauges.upstreams(), set), ['upstream', 'state'])
  const skipped = '1 while every target of the upstream is skipped because it keeps failing.'
  add('upstream_skipped', skipped, (set) => setSkipped(gauges.upstreams(), set), ['upstream'])

  add('disk_free_bytes', 'Room on the disk of the database file.', async (set) =>
    set(readIf(await disk(), ({ freeBytes }) => freeBytes)),
  )
  add('disk_size_bytes', 'Size of the disk of the database file.', async (set) =>
    set(readIf(await disk(), ({ sizeBytes }) => sizeBytes)),
  )
  const heap = 'The heap that the runtime may use; the process ends where it needs more.'
  add('heap_limit_bytes', heap, (set) => set(getHeapStatistics().heap_size_limit))
}

function setCalls(upstreams: readonly UpstreamState[], set: SetValue): void {
  for (const { name: upstream, running, waiting, maxConcurrency } of upstreams) {
    set(running, { upstream, state: 'running' })
    set(waiting, { upstream, state: 'waiting' })
    set(maxConcurrency, { upstream, state: 'places' })
  }
}

function setSkipped(upstreams: readonly UpstreamState[], set: SetValue): void {
  for (const { name: upstream, openUntilMs } of upstreams) {
    set(openUntilMs === null ? 0 : 1, { upstream })
  }
}

/** Sets a value; null is left out of the scrape. */
type SetValue = (value: number | null, labels?: Readonly<Record<string, string>>) => void

/** Adds a gauge that holds what `collect` sets at this scrape, and nothing of an earlier one. */
function adderTo(registry: Registry) {
  return (
    name: string,
    help: string,
    collect: (set: SetValue) => void | Promise<void>,
    labelNames: string[] = [],
  ): void => {
    const gauge = new Gauge({
      name: `parley_${name}`,
      help,
      labelNames,
      registers: [registry],
      async collect() {
        await collect((value, labels = {}) => {
          if (value === null) gauge.remove(labels)
          else gauge.set(labels, value)
        })
      },
    })
  }
}

function readIf<Found>(found: Found | null, read: (found: Found) => number): number | null {
  return found === null ? null : read(found)
}
