/**
 * Registers the gauges that are read from the running service at each scrape. If the database does not respond within
 * TIMEOUT_MS, only the gauges that need it are missing, and `parley_ready` is 0.
 */

import { realpath, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { getHeapStatistics } from 'node:v8'
import { Gauge, type Registry } from 'prom-client'
import type { OwnedBatches } from '../batches/progress.ts'
import type { Clock } from '../clock.ts'
import type { CpuPoolState } from '../cpu-pool/cpu-pool.ts'
import { singleFlight } from '../lookup-cache.ts'
import type { RouteSignal } from '../queue/route-signals.ts'
import type { HeldBack } from '../queue/scheduler.ts'
import { type ByteBudget, SHARE_NAMES } from '../sharing/byte-budget.ts'
import { OPEN_STATUSES } from '../store/batch-store.ts'
import { type CallbackDepth, type DeliveryQueueName, MAX_COUNTED } from '../store/callback-store.ts'
import type { Depth } from '../store/store.ts'
import type { Trouble } from '../upstreams/model-server.ts'
import type { UpstreamState } from '../upstreams/routing-table.ts'

export interface Gauges {
  ready(): Promise<void>
  depth(): Promise<Depth>
  callbackDepth(): Promise<CallbackDepth>
  callbacksInProgress(): Readonly<Record<DeliveryQueueName, number>>
  /** Resolves with the routes that have waiting jobs. */
  routes(): Promise<readonly RouteSignal[]>
  running(): number
  heldBack(): readonly HeldBack[]
  suspects(): { readonly queued: number; readonly running: number }
  pendingResponses(): number
  batches(): OwnedBatches
  memory(): ByteBudget
  connections(): number
  /** Returns how much of the time since the last measurement the event loop was busy, from 0 to 1. */
  busy(): number
  upstreams(): readonly UpstreamState[]
  cpu(): CpuPoolState
  /** Resolves with the disk of the database file; null with Postgres. */
  disk(): Promise<Disk | null>
  readonly slots: {
    readonly jobs: number
    readonly pendingResponses: number
    readonly connections: number
    readonly cpuThreads: number
  }
  readonly about: { readonly version: string; readonly role: string; readonly store: string }
  readonly clock: Clock
}

/** Version 0.3 labelled several threads. The label stays, because dashboards use it. */
const MAIN_THREAD = { thread: '0' }

export function registerGauges(registry: Registry, gauges: Gauges): void {
  const { clock, slots, about } = gauges
  const add = gaugeAdder(registry)
  const ready = withTimeout(clock, () => gauges.ready().then(() => true))
  const depth = withTimeout(clock, gauges.depth)
  const callbacks = withTimeout(clock, gauges.callbackDepth)
  const disk = withTimeout(clock, gauges.disk)
  const age = (sinceMs: number | null) => ageSeconds(sinceMs, clock.nowMs())

  add('info', 'Always 1. The labels are the version, role and store of this node.', (set) => set(1, about), [
    'version',
    'role',
    'store',
  ])
  add('ready', '1 while this node can accept jobs, as in /readyz.', async (set) =>
    set((await ready()) ? 1 : 0),
  )
  const fromDepth = (name: string, help: string, read: (found: Depth) => number) =>
    add(name, help, async (set) => set(readIf(await depth(), read)))
  fromDepth('queue_jobs', 'Queued jobs.', ({ waiting }) => waiting)
  fromDepth('jobs_assigned', 'Jobs that are assigned to nodes.', ({ assigned }) => assigned)
  fromDepth('queue_oldest_age_seconds', 'Age of the oldest queued job.', ({ oldestCreatedAtMs }) =>
    age(oldestCreatedAtMs),
  )
  const routes = withTimeout(clock, gauges.routes)
  const byRoute = (name: string, help: string, read: (found: RouteSignal) => number) =>
    add(name, help, async (set) => setRoutes((await routes()) ?? [], read, set), ['route'])
  byRoute(
    'route_queue_jobs',
    'Queued jobs by route: the targets that they can be sent to.',
    (one) => one.queued,
  )
  byRoute(
    'route_waiting_jobs',
    'Jobs of this node by route that wait for a slot or a rate of a model server.',
    ({ waiting }) => waiting,
  )
  byRoute(
    'route_oldest_age_seconds',
    'Age of the oldest job by route that is queued, or waits on this node for a slot or a rate of a model server.',
    ({ oldestMs }) => age(oldestMs),
  )
  add('jobs_running', 'Jobs that this node runs.', (set) => set(gauges.running()))
  add('job_places', 'Maximum jobs that this node runs at the same time.', (set) => set(slots.jobs))
  const heldBack =
    'Accounts whose jobs wait on this node because they use all that one account can have, by reason.'
  add('accounts_held_back', heldBack, (set) => setHeldBack(gauges.heldBack(), set), ['reason'])
  const suspects =
    'Jobs that were running when a node crashed: queued (by the last count), or running on this node.'
  add('suspect_jobs', suspects, (set) => setSuspects(gauges.suspects(), set), ['state'])
  add('waiters', 'Requests that are waiting for their job on this node.', (set) =>
    set(gauges.pendingResponses()),
  )
  add('waiter_places', 'Maximum requests that wait on this node at the same time.', (set) =>
    set(slots.pendingResponses),
  )

  const batches = 'Unfinished batches that this node runs, by status.'
  add('batches', batches, (set) => setBatches(gauges.batches(), set), ['status'])
  add('batch_lines_running', 'Lines with unfinished jobs in the batches that this node runs.', (set) =>
    set(gauges.batches().lines),
  )

  add('connections', 'Open connections.', (set) => set(gauges.connections()))
  add('connection_limit', 'Maximum open connections of this node.', (set) => set(slots.connections))
  add(
    'thread_connections',
    'Deprecated: parley_connections, with the label thread="0".',
    (set) => set(gauges.connections(), MAIN_THREAD),
    ['thread'],
  )
  add(
    'thread_busy_ratio',
    'How much of the time since the last scrape the event loop was busy, with the label thread="0".',
    (set) => set(gauges.busy(), MAIN_THREAD),
    ['thread'],
  )
  const memory = 'Estimated memory in use of each share of limits.memory_bytes, and the size of the share.'
  add('memory_bytes', memory, (set) => setMemory(gauges.memory(), set), ['share', 'state'])

  const upTo = `, counted up to ${MAX_COUNTED}.`
  const fromCallbacks = (name: string, help: string, read: (found: CallbackDepth) => number) =>
    add(name, help, async (set) => set(readIf(await callbacks(), read)))
  fromCallbacks('callbacks_owed', `Callbacks not delivered yet${upTo}`, ({ owed }) => owed)
  fromCallbacks('callbacks_failed', `Callbacks that failed permanently and are kept${upTo}`, (f) => f.failed)
  fromCallbacks(
    'callbacks_late_seconds',
    'How long the most overdue callback has been due.',
    ({ earliestDueMs }) => age(earliestDueMs),
  )
  const byQueue = (set: SetValue) => {
    for (const [lane, count] of Object.entries(gauges.callbacksInProgress())) set(count, { lane })
  }
  add('callbacks_under_way', 'Callback attempts in progress on this node.', byQueue, ['lane'])

  const calls = 'Calls in progress, calls waiting for a slot, current slots, and maximum slots.'
  add('upstream_calls', calls, (set) => setCalls(gauges.upstreams(), set), ['upstream', 'state'])
  const forRate = 'Jobs of this node that wait for requests_per_minute or tokens_per_minute.'
  add(
    'upstream_rate_waiting',
    forRate,
    (set) => {
      for (const { name: upstream, waitingForRate } of gauges.upstreams()) set(waitingForRate, { upstream })
    },
    ['upstream'],
  )
  const skipped = '1 while every target of the upstream is skipped because its circuit breaker is open.'
  add('upstream_skipped', skipped, (set) => setSkipped(gauges.upstreams(), set), ['upstream'])

  const unavailable =
    'How long calls to a target have been failing while jobs wait for it, by reason; otherwise 0.'
  const byReason = ['upstream', 'model', 'reason']
  add('upstream_unavailable_seconds', unavailable, (set) => setUnavailable(gauges, set), byReason)

  const cpu =
    'Running tasks on the threads for CPU-heavy work, tasks waiting for a thread, and threads in total.'
  add('cpu_tasks', cpu, (set) => setTasks(gauges.cpu(), slots.cpuThreads, set), ['state'])
  add('cpu_requests', 'Requests that are being read or counted by these threads.', (set) =>
    set(gauges.cpu().requests),
  )

  add('disk_free_bytes', 'Free space on the disk of the database file.', async (set) =>
    set(readIf(await disk(), ({ freeBytes }) => freeBytes)),
  )
  add('disk_size_bytes', 'Size of the disk of the database file.', async (set) =>
    set(readIf(await disk(), ({ sizeBytes }) => sizeBytes)),
  )
  const heap = 'Heap limit of the process. It crashes if it needs more.'
  add('heap_limit_bytes', heap, (set) => set(getHeapStatistics().heap_size_limit))
}

function setRoutes(
  routes: readonly RouteSignal[],
  read: (found: RouteSignal) => number,
  set: SetValue,
): void {
  for (const route of routes) set(read(route), { route: route.targets.join(' ') })
}

function setSuspects({ queued, running }: ReturnType<Gauges['suspects']>, set: SetValue): void {
  set(queued, { state: 'queued' })
  set(running, { state: 'running' })
}

function setBatches({ statuses }: OwnedBatches, set: SetValue): void {
  for (const status of OPEN_STATUSES) set(statuses.filter((one) => one === status).length, { status })
}

function setHeldBack(accounts: readonly HeldBack[], set: SetValue): void {
  for (const reason of ['slots', 'memory'] as const) {
    set(accounts.filter((one) => one.reason === reason).length, { reason })
  }
}

function setMemory(budget: ByteBudget, set: SetValue): void {
  for (const share of SHARE_NAMES) {
    set(budget[share].held.total, { share, state: 'held' })
    set(budget[share].limit, { share, state: 'limit' })
  }
}

function setCalls(upstreams: readonly UpstreamState[], set: SetValue): void {
  for (const { name: upstream, running, waiting, limit, maxConcurrency } of upstreams) {
    set(running, { upstream, state: 'running' })
    set(waiting, { upstream, state: 'waiting' })
    set(limit, { upstream, state: 'places' })
    set(maxConcurrency, { upstream, state: 'ceiling' })
  }
}

function setSkipped(upstreams: readonly UpstreamState[], set: SetValue): void {
  for (const { name: upstream, openUntilMs } of upstreams) {
    set(openUntilMs === null ? 0 : 1, { upstream })
  }
}

const REASONS: readonly Trouble['kind'][] = [
  'unreachable',
  'overloaded',
  'broken',
  'misconfigured',
  'failing',
]

function setUnavailable({ upstreams, clock }: Gauges, set: SetValue): void {
  for (const { name: upstream, targets } of upstreams()) {
    for (const { model, unavailable } of targets) {
      for (const reason of REASONS) {
        const isIt = unavailable?.trouble.kind === reason
        set(isIt ? ageSeconds(unavailable.sinceMs, clock.nowMs()) : 0, { upstream, model, reason })
      }
    }
  }
}

function setTasks({ running, waiting }: CpuPoolState, threads: number, set: SetValue): void {
  set(running, { state: 'running' })
  set(waiting, { state: 'waiting' })
  set(threads, { state: 'places' })
}

/** Null omits the value from the scrape. */
type SetValue = (value: number | null, labels?: Readonly<Record<string, string>>) => void

function gaugeAdder(registry: Registry) {
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
        const found: Parameters<SetValue>[] = []
        await collect((...value) => found.push(value))
        // Values of label combinations that no longer exist must disappear.
        if (labelNames.length > 0) gauge.reset()
        for (const [value, labels = {}] of found) {
          if (value === null) gauge.remove(labels)
          else gauge.set(labels, value)
        }
      },
    })
  }
}

function readIf<Found>(found: Found | null, read: (found: Found) => number): number | null {
  return found === null ? null : read(found)
}

export function ageSeconds(sinceMs: number | null, nowMs: number): number {
  return sinceMs === null ? 0 : Math.max(0, nowMs - sinceMs) / 1000
}

interface Disk {
  /** An unprivileged process can use this many bytes. */
  readonly freeBytes: number
  readonly sizeBytes: number
}

/** Returns the disk that contains a file. If the path is a link, that is the disk of the link's target. */
export async function diskOf(file: string): Promise<Disk> {
  const { bsize, bavail, blocks } = await statfs(dirname(await realpath(file)))
  return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize }
}

/** A gauge gives up after this time. By default, Prometheus abandons a scrape after 10 s. */
export const TIMEOUT_MS = 5000

/**
 * Returns a function that resolves with null if `ask` fails or takes longer than TIMEOUT_MS. Concurrent calls share one result,
 * so that scrapes do not repeat a query that hangs.
 */
export function withTimeout<Found>(clock: Clock, ask: () => Promise<Found>): () => Promise<Found | null> {
  const answerOf = singleFlight(() => ask().catch(() => null))
  return () =>
    new Promise((resolve) => {
      const cancel = clock.after(TIMEOUT_MS, () => resolve(null))
      void answerOf().then((found) => {
        cancel()
        resolve(found)
      })
    })
}
