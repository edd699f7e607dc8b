/**
 * Runs one plan of the simulation: its actions, the time until nothing happens any more, a load that checks what capacity is
 * left, and the shutdown.
 */
import { hashKey } from '../../src/accounts/key.ts'
import { tiersOf } from '../../src/config/conversions.ts'
import { type Tier, Tiers } from '../../src/job/tier.ts'
import { makeSecret } from '../../src/net/signing-secrets.ts'
import { LOOK_EVERY_MS, type Worker } from '../../src/queue/worker.ts'
import { type ByteBudget, SHARE_NAMES } from '../../src/sharing/byte-budget.ts'
import type { ModelRouter } from '../../src/upstreams/router.ts'
import { Actors } from './actors.ts'
import { checkBatches, openBatches } from './batches.ts'
import { FAIRNESS_ACCOUNTS, tryFairness } from './fairness.ts'
import { keyOf } from './front.ts'
import { LEAKS, Ledger, type Violation } from './ledger.ts'
import { Lockstep } from './lockstep.ts'
import { stateOf } from './memory-store/callbacks.ts'
import { MemoryDatabase } from './memory-store/database.ts'
import { memoryOperations } from './memory-store/memory-store.ts'
import { SimulatedNode, type Surroundings } from './node.ts'
import {
  ACCOUNTS,
  type Action,
  describeAction,
  type Plan,
  type ReceiverFault,
  type StoreFault,
  UPSTREAMS,
} from './plan.ts'
import type { RealStores } from './real-stores.ts'
import { checkRules } from './rules.ts'
import { configurationOf } from './settings.ts'
import { Witness } from './witness.ts'
import { type OnStep, WORLD_START_MS, World } from './world.ts'

/** All faults are over this many milliseconds after the last action. */
const FAULTS_END_MS = 100_000
/** After the faults, everything ends within this many milliseconds. A job that no process can run takes the longest. */
const MOST_QUIET_MS = 1_800_000
const STOP_MS = 60_000
const JUMPS: readonly Action['kind'][] = ['clock', 'store clock']
const LOOK_MS = 1000
/** A process may have a timer for each polling loop: retention, remote results, cancellation, callbacks, lease, batches. */
const POLLING_LOOPS = 6

export interface Result {
  readonly violations: readonly Violation[]
  readonly hash: string
  readonly events: number
  readonly simulatedMs: number
  readonly jobs: number
}

export interface SimulateOptions {
  /** Receives every event. With this function, the history also contains states, so its hash is different. */
  readonly onStep?: OnStep | null
  /** These real databases also run every call. They determine whether the history has many nodes or one. */
  readonly stores?: RealStores | null
  /** If true, the history ends with the load that checks fair shares, which on a real store takes most of the time. */
  readonly hasLoad?: boolean
}

export async function simulate(
  plan: Plan,
  { onStep = null, stores = null, hasLoad = true }: SimulateOptions = {},
): Promise<Result> {
  const world = new World(plan.seed, onStep)
  const ledger = new Ledger(world, {
    retentionMs: plan.retentionS * 1000,
    isPatient: plan.patienceMs > 0,
    shared: stores?.shared ?? plan.shared,
    tierOf: tiersOfAccounts(plan),
  })
  const onRejection = (error: unknown) => {
    ledger.violate(
      'no promise is left unhandled',
      error instanceof Error ? String(error.stack) : String(error),
    )
  }
  process.on('unhandledRejection', onRejection)
  try {
    const storeClock = { offsetMs: 0, jumpedMs: Number.NEGATIVE_INFINITY }
    const clockMs = () => WORLD_START_MS + world.nowMs + storeClock.offsetMs
    const real = stores === null ? null : await stores.open(clockMs)
    const history = stores === null ? plan : planFor(plan, stores)
    const db = new MemoryDatabase({ shared: history.shared, clockMs })
    const lockstep = real === null ? null : new Lockstep({ real, world, ledger, db })
    const simulation = new Simulation(history, { world, ledger, db, storeClock, lockstep })
    if (onStep) simulation.noteStates()
    await simulation.run(hasLoad)
    await real?.close()
    // Node reports an unhandled rejection in a later turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve))
  } finally {
    process.off('unhandledRejection', onRejection)
  }
  const { violations, jobs } = ledger
  return { violations, hash: world.hash, events: world.events, simulatedMs: world.nowMs, jobs: jobs.size }
}

function tiersOfAccounts(plan: Plan): (account: string) => Tier {
  const tiers = new Tiers(tiersOf(configurationOf(plan).settings))
  const names = new Map([...ACCOUNTS, ...FAIRNESS_ACCOUNTS].map(({ name, tier }) => [name, tier]))
  return (account) => tiers.of(names.get(account) ?? '')
}

function planFor(plan: Plan, { shared }: RealStores): Plan {
  return { ...plan, shared, nodes: shared ? plan.nodes : 1 }
}

/**
 * Returns what is still counted in each share of the byte budget. To probe the reserve, more bytes than the share has are
 * requested, which are granted only if no other large thing is held.
 */
function leftIn(bytes: ByteBudget): Readonly<Record<string, number>> {
  const left: Record<string, number> = {}
  for (const name of SHARE_NAMES) {
    const share = bytes[name]
    left[`bytes of ${name}`] = share.held.total
    left[`requests for bytes of ${name}`] = share.waiting.total
    left[`reserves of ${name}`] = share.decide('probe', share.limit * 2) === 'granted' ? 0 : 1
  }
  return left
}

/**
 * All limited routes together have one timer for overdue jobs. Each target that is unavailable, even if only for one account,
 * has one for its next check.
 */
function timersOfWaits(router: ModelRouter): number {
  const targets = router.state().flatMap((upstream) => upstream.targets)
  return (
    (router.limited.size + router.limitedAccounts.size > 0 ? 1 : 0) +
    targets.filter(({ unavailable, limitedAccounts }) => unavailable !== null || limitedAccounts > 0).length
  )
}

/**
 * Returns what a scheduler counts of jobs that run or are known to be queued. The scheduler may not know the queued jobs of a
 * limited route or account.
 */
function leftOfSchedule(
  { schedule, suspects }: Worker,
  router: ModelRouter,
): Readonly<Record<string, number>> {
  const left: Record<string, number> = {
    'slots held': schedule.held,
    'suspects that run': suspects.running,
    'suspects that are queued': suspects.queued,
  }
  for (const queue of schedule.queues) {
    const { name, lanes } = queue
    const { route, held, arriving, newcomers, limited, limitedAccounts } = queue.of
    left[`places of ${route}`] = held.total
    left[`jobs on their way to ${route}`] = arriving
    left[`newcomers of ${route}`] = newcomers
    left[`jobs in the limit of ${route}`] = limited?.running ?? 0
    for (const [account, { running }] of limitedAccounts) left[`jobs in the limit of ${account}`] = running
    if (router.limited.has(route)) continue
    left[`queues of ${name}`] = queue.walk.mayBeQueued ? 1 : 0
    left[`lanes of ${name}`] = [...lanes.keys()].filter((account) => !limitedAccounts.has(account)).length
  }
  return left
}

class Simulation {
  readonly #plan: Plan
  readonly #world: World
  readonly #ledger: Ledger
  readonly #db: MemoryDatabase
  readonly #around: Surroundings & { readonly receiverFaults: Map<string, ReceiverFault> }
  readonly #nodes: readonly SimulatedNode[]
  readonly #actors: Actors

  constructor(plan: Plan, base: Pick<Surroundings, 'world' | 'ledger' | 'db' | 'storeClock' | 'lockstep'>) {
    const { world, ledger, db } = base
    this.#plan = plan
    this.#world = world
    this.#ledger = ledger
    this.#db = db
    this.#around = {
      ...base,
      plan,
      faults: new Set<StoreFault>(),
      listeners: new Map(),
      heartbeats: new Map(),
      witness: new Witness(world, ledger, db),
      announced: new Map(),
      upstreams: new Map(
        UPSTREAMS.map((name) => [
          name,
          { name, fault: null, isDown: false, inProgress: 0, onCrash: new Set() },
        ]),
      ),
      receiverFaults: new Map(),
    }
    this.#nodes = Array.from(
      { length: plan.nodes },
      (_, index) => new SimulatedNode(`node${index + 1}`, this.#around),
    )
    this.#actors = new Actors({ ...this.#around, nodes: this.#nodes })
  }

  async run(hasLoad: boolean): Promise<void> {
    const { actions } = this.#plan
    const world = this.#world
    await this.#createAccounts()
    for (const node of this.#nodes) node.start()
    for (const action of actions) {
      world.after(action.atMs, 'action', () => {
        world.note(`ACTION ${describeAction(action).trim()}`)
        this.#actors.perform(action)
      })
    }
    const lastMs = actions.at(-1)?.atMs ?? 0
    await world.runUntil(lastMs)
    const faults = ['store', 'upstream', 'receiver', 'kill', 'restart', 'upgrade', 'pause']
    const endOf = (action: (typeof actions)[number]) =>
      faults.includes(action.kind) && 'ms' in action ? action.atMs + Math.max(0, action.ms) : action.atMs
    await world.runUntil(Math.min(Math.max(...actions.map(endOf), 0), lastMs + FAULTS_END_MS))
    await this.#untilQuiet('every accepted job ends once the faults end')
    if (hasLoad) await this.#tryFairness()
    const hasEnded = (id: string) => !this.#nodes.some(({ process }) => process?.id === id)
    checkRules({ plan: this.#plan, ledger: this.#ledger, db: this.#db, hasEnded })
    checkBatches(this.#db, this.#ledger)
    this.#checkLeftovers()
    await this.#stop()
  }

  noteStates(): void {
    const known = new Map<string, string>()
    this.#world.onSettled = () => {
      for (const { job, status, node, attempt, crashCount, callback, route } of this.#db.jobs.values()) {
        const holder = node === null ? '' : ` by ${node}`
        const owed =
          callback === null ? '' : `, callback ${stateOf(callback)} after ${callback.attempts.length}`
        const text = `${status}${holder}, attempt ${attempt}, crashes ${crashCount}, route '${route}'${owed}`
        if (known.get(job.id) === text) continue
        known.set(job.id, text)
        this.#world.note(`job ${job.id} of ${job.account}: ${text}`)
      }
    }
  }

  async #createAccounts(): Promise<void> {
    const { createKey } = memoryOperations(this.#db)
    for (const { name, tier } of [...ACCOUNTS, ...FAIRNESS_ACCOUNTS]) {
      const secret = makeSecret((bytes) => Buffer.from(this.#world.random.hex(bytes), 'hex'))
      this.#ledger.addSecret(name, secret)
      const times = { createdAtMs: WORLD_START_MS, expiresAtMs: null }
      const key = { id: `key_${name}`, hash: hashKey(keyOf(name)), account: name, tier, secret, ...times }
      const create = () => ({ value: createKey(key) })
      const { lockstep } = this.#around
      if (lockstep === null) create()
      else await lockstep.run({ name: 'createKey', args: [key] }, create)
    }
  }

  async #tryFairness(): Promise<void> {
    const processes = this.#nodes.flatMap(({ process }) => process ?? [])
    const [process] = processes
    if (process === undefined || processes.length < this.#nodes.length) return
    await tryFairness({
      ...this.#around,
      callers: this.#actors.callers,
      process,
      processes,
      untilQuiet: () => this.#untilQuiet('a load ends'),
    })
  }

  get #isQuiet(): boolean {
    const { open, owed, cancelled } = this.#db
    if (openBatches(this.#db, this.#ledger) > 0) return false
    if (open.size > 0 || owed.size > 0 || cancelled.some(({ node }) => node === null)) return false
    if (this.#actors.callers.openRequests > 0 || this.#actors.upgrades > 0) return false
    return this.#nodes.every(({ process }) => {
      if (process === null || !process.hasStarted || process.main.state !== 'running') return false
      const { worker, pendingResponses, dispatcher } = process.engine
      const { first, retry } = dispatcher.inFlight
      return process.front.requests + worker.running + pendingResponses.count + first + retry === 0
    })
  }

  async #untilQuiet(rule: string): Promise<void> {
    const world = this.#world
    const untilMs = world.nowMs + MOST_QUIET_MS + this.#clockJumpsMs
    do await world.runUntil(world.nowMs + LOOK_MS)
    while (!this.#isQuiet && world.nowMs < untilMs && !this.#ledger.hasDiverged)
    if (!this.#isQuiet) this.#ledger.violate(rule, this.#state())
    // Some timers are not set again, and must fire before the end. The first check for suspects finds none, but has already
    // planned another check.
    await world.runUntil(world.nowMs + 2 * LOOK_EVERY_MS + LOOK_MS)
  }

  /** Due times follow the wall clock, so after jumps back they may come later by up to this many milliseconds. */
  get #clockJumpsMs(): number {
    const jumps = this.#plan.actions.map((action) =>
      JUMPS.includes(action.kind) && 'ms' in action ? Math.abs(action.ms) : 0,
    )
    return jumps.reduce((sum, ms) => sum + ms, 0)
  }

  #state(): string {
    const { open, owed } = this.#db
    const jobs = [...open].map(
      ({ job, status, node, attempt, crashCount }) =>
        `${job.id} ${status} node=${node} attempt=${attempt} crashes=${crashCount}`,
    )
    const callbacks = [...owed].map(({ job, callback }) => `${job.id} ${JSON.stringify(callback)}`)
    const nodes = this.#nodes.map(({ name, process }) => {
      if (process === null) return `${name} does not run`
      const { worker, pendingResponses, dispatcher } = process.engine
      return `${process.id} ${process.main.state} running=${worker.running} pending=${pendingResponses.count} callbacks=${JSON.stringify(dispatcher.inFlight)} limited=${JSON.stringify([...process.router.limited])} accounts=${JSON.stringify([...process.router.limitedAccounts.keys()])}`
    })
    return [`open requests ${this.#actors.callers.openRequests}`, ...jobs, ...callbacks, ...nodes].join(
      '\n    ',
    )
  }

  /** At the end, no bytes, permits, pending requests or timers may be left. */
  #checkLeftovers(): void {
    // A node keeps the timer of a deadline even if the job has ended or was deleted.
    const { jobs, batches } = this.#ledger
    const deadlines = batches.size > 0 || [...jobs.values()].some(({ plan }) => plan.completeWithinS) ? 1 : 0
    for (const { process } of this.#nodes) {
      if (process === null) continue
      const { engine, router, main } = process
      const left = {
        ...leftIn(engine.bytes),
        ...leftOfSchedule(engine.worker, router),
        'jobs that run': engine.worker.running,
        'pending responses': engine.pendingResponses.count,
        'calls in progress': router.state().reduce((sum, { running }) => sum + running, 0),
        'calls that wait': router.state().reduce((sum, { waiting }) => sum + waiting, 0),
        'timers too many': Math.max(0, main.timers - POLLING_LOOPS - timersOfWaits(router) - deadlines),
      }
      for (const [what, count] of Object.entries(left)) {
        if (count !== 0) this.#ledger.violate(LEAKS, `${count} ${what}, ${process.id}`)
      }
    }
  }

  async #stop(): Promise<void> {
    const world = this.#world
    const processes = this.#nodes.flatMap(({ process }) => process ?? [])
    const stopped = new Set<SimulatedNode>()
    for (const node of this.#nodes) node.stop(() => stopped.add(node))
    await world.runUntil(world.nowMs + STOP_MS, () => stopped.size === this.#nodes.length)
    if (stopped.size < this.#nodes.length) this.#ledger.violate('every node stops', this.#state())
    for (const { id, main, heartbeat } of processes) {
      const timers = main.timers + heartbeat.timers
      if (timers > 0) this.#ledger.violate('nothing leaks after a stop', `${timers} timers of ${id}`)
    }
  }
}
