/**
 * Connects a node to the simulated database. Each call takes time in both directions, and is subject to the current faults. The
 * store's guarantees hold despite faults here, too: an acceptance that was rejected has stored nothing, unless its outcome
 * stayed unknown for very long.
 */
import type { Claim, NodeEvents } from '../../src/store/node-store.ts'
import type { OwnCancel } from '../../src/store/own-job-store.ts'
import {
  type Acceptance,
  type Accepted,
  type Claimed,
  type Settlement,
  type Store,
  StoreUnavailable,
  WriteRejected,
} from '../../src/store/store.ts'
import type { Ledger } from './ledger.ts'
import type { CallEnd, Lockstep } from './lockstep.ts'
import type { MemoryDatabase } from './memory-store/database.ts'
import { type MethodName, memoryOperations, type StoreCall, storeOf } from './memory-store/memory-store.ts'
import { LEASE_MS, type StoreFault } from './plan.ts'
import type { Witness } from './witness.ts'
import type { SimulatedThread, World } from './world.ts'

export const UNSTORABLE = 'unstorable'

const READS: readonly MethodName[] = [
  ...([
    'findResponse',
    'read',
    'readEnded',
    'findMissing',
    'claimsOf',
    'absentNodes',
    'loadCallback',
  ] as const),
  ...(['searchJobs', 'findKey', 'listUsage', 'used', 'quotaUse'] as const),
]
/** A store repeats these writes until their outcome is known. */
const REPEATED: readonly MethodName[] = ['accept', 'settle', 'release', 'releaseWaiting']
/** A write whose outcome is still unknown after this many milliseconds is reported as failed. */
const MAX_UNKNOWN_MS = 20_000
const POLL_MS = 1000

export interface Shared {
  readonly world: World
  readonly db: MemoryDatabase
  /** Runs each call on a real store as well. Null stands for a history without a real store. */
  readonly lockstep: Lockstep | null
  readonly ledger: Ledger
  readonly faults: Set<StoreFault>
  readonly heartbeats: Map<string, SimulatedThread>
  readonly witness: Witness
  /** The database's clock is wrong by `offsetMs`. It last jumped at `jumpedMs`. */
  readonly storeClock: { offsetMs: number; jumpedMs: number }
  /** Maps jobs to the nodes that announced a waiting caller. */
  readonly announced: Map<string, Set<string>>
  readonly listeners: Map<string, { readonly events: NodeEvents; readonly thread: SimulatedThread }>
}

export class StoreConnection {
  readonly #shared: Shared
  readonly #node: string
  readonly #thread: SimulatedThread
  readonly store: Store
  /** A SQLite file runs calls in the order in which they arrived, so none arrives before the last one. */
  #lastArrivalMs = 0
  #lastReplyMs = 0

  constructor(shared: Shared, node: string, thread: SimulatedThread) {
    this.#shared = shared
    this.#node = node
    this.#thread = thread
    const { db, listeners } = shared
    this.store = storeOf(memoryOperations(db), (call) => this.#send(call), {
      shared: db.shared,
      isKnownToAll: () => true,
      subscribe: (events) => {
        listeners.set(node, { events, thread })
        if (db.shared) this.#poll(events)
      },
      announceWaits: (jobIds) => this.#announce(jobIds),
      close: async () => {
        listeners.delete(node)
      },
    })
  }

  /** Lets the node look for queued jobs, because notifications may be lost. The Postgres store does the same. */
  #poll(events: NodeEvents): void {
    const { world, listeners } = this.#shared
    const look = () => {
      if (!listeners.has(this.#node)) return
      events.jobsWaiting(null)
      this.#poll(events)
    }
    world.after(POLL_MS, `poll of ${this.#thread.name}`, look, this.#thread)
  }

  #send(call: StoreCall): Promise<unknown> {
    const { world } = this.#shared
    return new Promise((resolve, reject) => {
      const arrival = this.#arrivalMs() - world.nowMs
      world.after(arrival, `${this.#thread.name} ${call.name}`, () => this.#arrive(call, resolve, reject))
    })
  }

  #latencyMs(): number {
    const { world, faults } = this.#shared
    const slow = faults.has('slow') && world.random.chance(0.5) ? 500 : 1
    return slow * (world.random.chance(0.3) ? 0 : world.random.next() * 4)
  }

  #arrivalMs(): number {
    const { world, db } = this.#shared
    const atMs = world.nowMs + this.#latencyMs()
    this.#lastArrivalMs = db.shared ? atMs : Math.max(atMs, this.#lastArrivalMs)
    return this.#lastArrivalMs
  }

  #arrive(call: StoreCall, resolve: (value: unknown) => void, reject: (error: unknown) => void): void {
    const { world, db, faults } = this.#shared
    const { random } = world
    const isRead = READS.includes(call.name)
    if (this.#thread.state === 'ended' && (!db.shared || random.chance(0.5))) return
    const fail = (afterMs = 0) =>
      this.#reply(afterMs, `${call.name} fails`, () =>
        reject(new StoreUnavailable('the database is unavailable')),
      )
    const isDown = faults.has('unavailable') || (faults.has('full') && !isRead)
    const isCut = db.shared && faults.has('cut') && random.chance(0.3)
    if (isDown || (isCut && random.chance(0.5))) {
      fail()
      return
    }
    const answer = (end: CallEnd) => {
      const reply = () => {
        if (call.name === 'recordStarts') witness.knowsStarts(this.#node, call.args[1] as readonly Claim[])
        if (call.name === 'claim' && 'value' in end) witness.knowsClaims(this.#node, end.value as Claimed)
        if ('error' in end) reject(end.error)
        else resolve(end.value)
      }
      this.#answer(call, reply, fail, isCut)
    }
    const { lockstep, witness } = this.#shared
    if (isUnstorable(call)) answer(UNSTORABLE_END)
    else if (lockstep === null) answer(this.#run(call))
    else world.hold(lockstep.run(call, () => this.#run(call)).then(answer))
  }

  #answer({ name }: StoreCall, reply: () => void, fail: (afterMs?: number) => void, isCut: boolean): void {
    const { random } = this.#shared.world
    if (!isCut) this.#reply(0, `reply to ${name}`, reply)
    // The statement ran, but its result is lost. A store that repeats the statement finds what the first one did.
    else if (!READS.includes(name) && !REPEATED.includes(name)) fail()
    else if (random.chance(0.9)) this.#reply(random.whole(50, 5000), `late reply to ${name}`, reply)
    else fail(MAX_UNKNOWN_MS)
  }

  #reply(afterMs: number, label: string, deliver: () => void): void {
    const { world, db } = this.#shared
    const atMs = world.nowMs + afterMs + this.#latencyMs()
    this.#lastReplyMs = db.shared ? atMs : Math.max(atMs, this.#lastReplyMs)
    world.after(this.#lastReplyMs - world.nowMs, `${label}, ${this.#thread.name}`, deliver, this.#thread)
  }

  #run(call: StoreCall): CallEnd {
    const { name, args, run } = call
    if (name === 'rescue') this.#noteCrashes()
    if (name === 'revertCrashes') this.#noteReturns()
    try {
      const value = run()
      this.#shared.witness.saw(this.#node, call, value)
      this.#notify(name, args, value)
      return { value }
    } catch (error) {
      return { error }
    }
  }

  /** This must run just before these jobs are rescued, while the nodes that held them are known. */
  #noteCrashes(): void {
    const { world, db, ledger, witness } = this.#shared
    for (const { node, job } of db.open) {
      if (node === null || node === this.#node || (db.shared && db.hasLease(node))) continue
      const sinceMs = witness.assignedMs(job.id, node)
      witness.rescued(job.id)
      const known = ledger.jobs.get(job.id)
      if (known !== undefined) {
        const { account, plan } = known
        // Of identical jobs, it is unknown which one was called.
        const isOnly = ledger.callsOf(account, plan.tag).jobs === 1
        const executed =
          !isOnly ||
          sinceMs === null ||
          witness.isStarting(node, job.id) ||
          ledger.jobCalls.hasCalled(node, account, plan.tag, sinceMs)
        known.crashes.push({ node, atMs: world.nowMs, executed, isReverted: false })
      }
      if (this.#lives(node)) ledger.violate('no job of a live node is rescued', `${job.id} of ${node}`)
    }
  }

  /** The processes which hold a lease again had not crashed. */
  #noteReturns(): void {
    const { db, ledger } = this.#shared
    for (const { job } of db.open) {
      const crashes = ledger.jobs.get(job.id)?.crashes ?? []
      for (const crash of crashes) crash.isReverted ||= db.hasLease(crash.node)
    }
  }

  /** The process lives if it has run for the length of a lease, and was able to renew its lease. */
  #lives(node: string): boolean {
    const { world, faults, heartbeats, storeClock } = this.#shared
    const thread = heartbeats.get(node)
    const mayExpire = faults.has('cut') || world.nowMs - storeClock.jumpedMs <= LEASE_MS
    if (thread === undefined || mayExpire) return false
    return thread.state === 'running' && world.nowMs - thread.resumedMs > LEASE_MS
  }

  #notify(name: MethodName, args: readonly unknown[], result: unknown): void {
    const { db, announced } = this.#shared
    if (!db.shared) return
    const queues = name === 'accept' && queuesAny(args[0] as Acceptance, result as Accepted)
    const returns = name === 'release' || name === 'releaseWaiting' || (name === 'rescue' && result !== 0)
    if (queues || returns)
      this.#tell(
        (other) => other !== this.#node,
        ({ jobsWaiting }) => jobsWaiting(null),
      )
    const jobId = endedBy(name, args, result)
    if (jobId === null) return
    // Nodes learn of cancellations of their jobs by polling, so only a settlement notifies the job's origin.
    const origin = name === 'settle' ? db.jobs.get(jobId)?.origin : null
    const waiting = announced.get(jobId)
    announced.delete(jobId)
    this.#tell(
      (other) => (other === origin || waiting?.has(other) === true) && other !== this.#node,
      ({ settled }) => settled([jobId]),
    )
  }

  /** An announcement may be lost, like any notification. */
  #announce(jobIds: readonly string[]): Promise<void> {
    const { world, db, announced } = this.#shared
    if (!db.shared) return Promise.resolve()
    return new Promise((resolve) => {
      world.after(
        this.#latencyMs(),
        `waits of ${this.#thread.name} are announced`,
        () => {
          const isLost = world.random.chance(0.2)
          for (const jobId of isLost ? [] : jobIds)
            announced.set(jobId, (announced.get(jobId) ?? new Set()).add(this.#node))
          resolve()
        },
        this.#thread,
      )
    })
  }

  #tell(isMeant: (node: string) => boolean, what: (events: NodeEvents) => void): void {
    const { world, listeners } = this.#shared
    for (const [node, { events, thread }] of listeners) {
      if (!isMeant(node) || world.random.chance(0.2)) continue
      world.after(world.random.next() * 30, `notification to ${thread.name}`, () => what(events), thread)
    }
  }
}

function queuesAny({ jobs }: Acceptance, accepted: Accepted): boolean {
  if (accepted.kind !== 'accepted') return false
  const answered = new Set(accepted.answered?.map(({ jobId }) => jobId))
  return jobs.some(({ job, handedOff }) => !handedOff && !answered.has(job.id))
}

function endedBy(name: MethodName, args: readonly unknown[], result: unknown): string | null {
  if (name === 'settle' && result === 'settled') return (args[0] as Settlement).jobId
  if (result !== 'cancelled') return null
  if (name === 'cancelJob') return args[0] as string
  return name === 'cancelOwnJob' ? (args[0] as OwnCancel).jobId : null
}

const UNSTORABLE_END: CallEnd = { error: new WriteRejected('the answer does not fit its column') }

function isUnstorable({ name, args }: StoreCall): boolean {
  if (name !== 'settle') return false
  const { outcome } = args[0] as Settlement
  return outcome.status === 'completed' && outcome.contentJson.includes(UNSTORABLE)
}
