/**
 * Simulates a node: the engine of the service (`src/app/engine.ts`), whose clock, random numbers, store connection, model
 * servers and poster belong to the world. A node is a sequence of processes, each with its own identity.
 */
import { createEngine, type Engine } from '../../src/app/engine.ts'
import { LeaseRenewal } from '../../src/app/heartbeat.ts'
import { createRouter, sharedRates } from '../../src/app/upstreams.ts'
import type { BatchRunner } from '../../src/batches/batch-runner.ts'
import type { Clock } from '../../src/clock.ts'
import { type TaskInput, type TaskName, type TaskOutput, tasks } from '../../src/cpu-pool/thread.ts'
import { currentPrices } from '../../src/queue/current-prices.ts'
import type { Heartbeat } from '../../src/queue/node-lease.ts'
import type { Store } from '../../src/store/store.ts'
import type { Fields, Log } from '../../src/telemetry/log.ts'
import { Metrics } from '../../src/telemetry/metrics.ts'
import type { ModelRouter } from '../../src/upstreams/router.ts'
import { batchRunnerOf } from './batches.ts'
import { Front } from './front.ts'
import { simulatedServer, type Upstream } from './model-servers.ts'
import { LEASE_MS, type Plan, type ReceiverFault } from './plan.ts'
import { simulatedPoster } from './receivers.ts'
import { configurationOf } from './settings.ts'
import { type Shared, StoreConnection } from './store-connection.ts'
import { SimulatedThread } from './world.ts'

export interface Surroundings extends Shared {
  readonly plan: Plan
  readonly upstreams: ReadonlyMap<string, Upstream>
  readonly receiverFaults: ReadonlyMap<string, ReceiverFault>
}

/** No rule reads these metrics, and creating them takes longer than a short history, so all processes share them. */
const METRICS = new Metrics()
/** A process whose event loop hangs for this long is ended. */
export const HANG_MS = 90_000

export class SimulatedNode {
  readonly name: string
  readonly #around: Surroundings
  #processes = 0
  clockOffsetMs = 0
  process: SimulatedProcess | null = null

  constructor(name: string, around: Surroundings) {
    this.name = name
    this.#around = around
  }

  /** Does nothing if a process is running. A process that cannot start ends, and the next one starts soon. */
  start(): void {
    if (this.process !== null) return
    this.#processes += 1
    const process = new SimulatedProcess(`${this.name}.${this.#processes}`, this, this.#around)
    this.process = process
    process.start().catch(() => {
      this.end(process)
      this.#around.world.after(1000, `${this.name} starts again`, () => this.start())
    })
  }

  /** Stops the node as SIGTERM does. Returns false if no process is running, or if it is already being stopped. */
  stop(then: () => void): boolean {
    const { process } = this
    if (process === null || process.isStopping) return false
    process.stop(() => {
      this.end(process)
      then()
    })
    return true
  }

  /** Ends the process at once, unless it has already ended. The node's next process starts after `restartMs`. */
  kill(process: SimulatedProcess | null, restartMs: number): void {
    if (process === null || this.process !== process) return
    this.#around.ledger.troubledFor(restartMs)
    this.end(process)
    this.#around.world.after(restartMs, `${this.name} starts`, () => this.start())
  }

  end(process: SimulatedProcess): void {
    process.end()
    if (this.process === process) this.process = null
  }
}

export class SimulatedProcess {
  readonly id: string
  readonly main: SimulatedThread
  readonly heartbeat: SimulatedThread
  readonly engine: Engine
  readonly front: Front
  readonly store: Store
  readonly clock: Clock
  readonly router: ModelRouter
  /** The field is null in histories without batches, because the events of a batch runner would change those histories. */
  readonly batches: BatchRunner | null
  readonly #around: Surroundings
  readonly #node: SimulatedNode
  readonly #onEnd = new Set<() => void>()
  #hasStarted = false
  isStopping = false

  constructor(id: string, node: SimulatedNode, around: Surroundings) {
    const { world, plan, ledger, upstreams, receiverFaults } = around
    this.id = id
    this.#around = around
    this.#node = node
    this.main = new SimulatedThread(id)
    this.heartbeat = new SimulatedThread(`heartbeat of ${id}`)
    around.heartbeats.set(id, this.heartbeat)
    const clock = world.clockOf(this.main, () => node.clockOffsetMs)
    this.clock = clock
    this.store = new StoreConnection(around, id, this.main).store
    const configuration = configurationOf(plan)
    const { settings } = configuration
    const random = world.random.next
    const log = this.#log()
    const { witness } = around
    const common = { world, ledger, clock, thread: this.main, witness }
    const kill = () => {
      ledger.mayLoseUsage = true
      node.kill(this, world.random.whole(500, 5000))
    }
    const prices = currentPrices({ models: settings.models, store: this.store, warn: () => {} })
    this.router = createRouter({
      configuration,
      clock,
      random,
      serverOf: (name) => simulatedServer({ ...common, upstream: upstreamOf(upstreams, name), kill }),
      onCall: METRICS.called,
      prices,
      bookOf: sharedRates({ store: this.store, node: id, clock, warn: () => {} }),
      log,
    })
    this.engine = createEngine({
      settings,
      role: 'all',
      node: id,
      store: this.store,
      clock,
      random,
      randomHex: world.random.hex,
      log,
      metrics: METRICS,
      pool: { run: (name, input, _user, signal) => this.#runTask(name, input, signal.reason !== null) },
      upstreams: this.router,
      prices,
      poster: simulatedPoster({ ...common, faults: receiverFaults }),
      startHeartbeat: (onExpired) => this.#startHeartbeat(onExpired),
    })
    this.batches = hasBatches(plan) ? batchRunnerOf(this, around) : null
    this.front = new Front({ ...around, process: this, settings })
  }

  get hasStarted(): boolean {
    return this.#hasStarted && !this.isStopping && this.main.state !== 'ended'
  }

  async start(): Promise<void> {
    await this.engine.start()
    this.batches?.start()
    this.#hasStarted = true
  }

  /** Stops the process as a signal does. A paused process notices the signal when it continues. */
  stop(then: () => void): void {
    this.isStopping = true
    const { world, ledger } = this.#around
    ledger.disturbed.add(this.id)
    // A run that is released at the end of the drain loses the usage that it has had so far.
    ledger.mayLoseUsage = true
    world.after(0, `${this.id} is told to stop`, () => this.#stop(then), this.main)
  }

  #stop(then: () => void): void {
    const { world, ledger } = this.#around
    const clients = { close: () => this.front.close(), cutOff: () => {} }
    Promise.all([this.batches?.stop(), this.engine.stop(clients)]).then(
      () => void world.after(0, `${this.id} has stopped`, then, this.main),
      (error) => ledger.violate('a stop succeeds', String(error)),
    )
  }

  whenEnded(listener: () => void): void {
    this.#onEnd.add(listener)
  }

  forget(listener: () => void): void {
    this.#onEnd.delete(listener)
  }

  end(): void {
    this.#around.ledger.disturbed.add(this.id)
    this.#around.ledger.limits.processEnded(this.id)
    for (const listener of this.#onEnd) listener()
    this.#onEnd.clear()
    for (const thread of [this.main, this.heartbeat]) {
      thread.state = 'ended'
      thread.missed = []
    }
    this.#around.listeners.delete(this.id)
  }

  /** @param what whether the whole process pauses or only its event loop */
  pause(ms: number, what: 'process' | 'loop'): void {
    const { world, ledger } = this.#around
    ledger.disturbed.add(this.id)
    const threads = what === 'process' ? [this.main, this.heartbeat] : [this.main]
    for (const thread of threads) if (thread.state === 'running') thread.state = 'paused'
    if (what === 'loop' && ms >= HANG_MS) {
      world.after(HANG_MS, `${this.id} hangs`, () => this.#node.kill(this, 1000))
      return
    }
    world.after(ms, `${this.id} goes on`, () => {
      for (const thread of threads) world.resume(thread)
    })
  }

  /** As in `app/heartbeat.ts`, the heartbeat has its own thread and connection. */
  async #startHeartbeat(onExpired: () => void): Promise<Heartbeat> {
    const { world } = this.#around
    const { store } = new StoreConnection(this.#around, this.id, this.heartbeat)
    const renewal = new LeaseRenewal({
      clock: world.clockOf(this.heartbeat, () => 0),
      leases: store,
      node: this.id,
      leaseMs: LEASE_MS,
      onExpired: () => void world.after(1, `${this.id} learns that its lease expired`, onExpired, this.main),
      onError: () => {},
    })
    await renewal.start()
    return { stop: () => renewal.stop() }
  }

  /** Runs the task after the time that it might take on a CPU pool thread. If the pool is stopped, resolves with null. */
  async #runTask<Name extends TaskName>(
    name: Name,
    input: TaskInput<Name>,
    isStopped: boolean,
  ): Promise<TaskOutput<Name> | null> {
    if (isStopped) return null
    const { world } = this.#around
    await new Promise<void>((resolve) => {
      world.after(world.random.next() * 20, `task of ${this.id}`, resolve, this.main)
    })
    // The compiler does not know that the name and the input belong together.
    const task = tasks[name] as (input: TaskInput<Name>) => TaskOutput<Name> | Promise<TaskOutput<Name>>
    return task(input)
  }

  /** Each logged error counts as a bug, except errors of the database and rejected writes. */
  #log(): Log {
    const { world, ledger } = this.#around
    const report = ({ error, error_name: name, stack }: Fields, message: string) => {
      world.note(`${this.id} logs: ${message}${error === undefined ? '' : ` (${String(error)})`}`)
      if (stack !== undefined && name !== 'WriteRejected')
        ledger.violate('no bug is logged', `${message}: ${String(stack)}`)
    }
    return { error: report, warn: report, info: report, debug: () => {}, flush: () => {} }
  }
}

export function hasBatches({ actions }: Plan): boolean {
  return actions.some(({ kind }) => kind === 'submit batch')
}

/** The number of the node is taken modulo the number of nodes. Returns null unless the node's process serves callers. */
export function runningProcess(nodes: readonly SimulatedNode[], node: number): SimulatedProcess | null {
  const process = nodes[node % nodes.length]?.process ?? null
  return process?.hasStarted ? process : null
}

function upstreamOf(upstreams: ReadonlyMap<string, Upstream>, name: string): Upstream {
  const upstream = upstreams.get(name)
  if (upstream === undefined) throw new Error(`there is no upstream ${name}`)
  return upstream
}
