/** The store on Postgres, as one of many nodes holds it: groups what arrives together into statements of many rows. */
import type { ClaimedJob, Job } from '../../job/job.ts'
import type { JobRecord } from '../../job/job-record.ts'
import type {
  AttemptRecord,
  CallbackBody,
  CallbackDepth,
  CallbackToLoad,
  DeferredCallback,
  DueCallback,
  TakeCallbacks,
  TakeDeferred,
} from '../callback-store.ts'
import type { Expiry } from '../expiry.ts'
import type { Claim, NodeEvents, Renewal } from '../node-store.ts'
import type {
  Acceptance,
  Accepted,
  Depth,
  EndedJob,
  PoisonCandidates,
  Settled,
  Settlement,
  Store,
} from '../store.ts'
import { PostgresCallbacks } from './callbacks.ts'
import { takeCancelled } from './cancel.ts'
import { PostgresClaim } from './claim.ts'
import { Database, type Statement } from './database.ts'
import { PostgresExpiry } from './expire.ts'
import { checkFitness } from './fitness.ts'
import { leave, renew, shareTurn } from './nodes.ts'
import { Notifications } from './notifications.ts'
import { PostgresOperations } from './operations.ts'
import { keepPartitions } from './partitions.ts'
import { QueueHead } from './queue-head.ts'
import { PostgresRead, readDepth, readEnded } from './read.ts'
import { migratePostgres } from './schema.ts'
import { GroupedWrites } from './write.ts'

export interface PostgresStoreOptions {
  readonly url: string
  readonly node: string
  readonly connections: number
  readonly prepare: boolean
  readonly statementMs: number
  /** Writes that may wait before acceptances are refused. */
  readonly maxQueued: number
  readonly retentionMs: number
  readonly nowMs: () => number
  readonly onCommit?: (size: number, ms: number) => void
  /** What the operator should know, such as that notices do not arrive. */
  readonly onNote: (message: string) => void
}

/** Migrates and connects. Rejects with a `DatabaseProblem` for what the operator must mend. */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  await migratePostgres(options.url)
  const database = new Database(options)
  try {
    await checkFitness(database, options.onNote)
    await keepPartitions(database, { nowMs: options.nowMs(), retentionMs: options.retentionMs })
    const store = new PostgresStore(database, options)
    await store.begin()
    return store
  } catch (error) {
    await database.close()
    throw error
  }
}

class PostgresStore extends PostgresOperations implements Store {
  readonly shared = true
  readonly #database: Database
  readonly #options: PostgresStoreOptions
  readonly #line = new QueueHead()
  readonly #claiming: PostgresClaim
  readonly #expiry: PostgresExpiry
  readonly #notices: Notifications
  readonly #writing: GroupedWrites
  readonly #reading: PostgresRead
  readonly #callbacks: PostgresCallbacks
  #closed: Promise<void> | null = null

  constructor(database: Database, options: PostgresStoreOptions) {
    const { maxQueued, onCommit, node, url, statementMs, onNote } = options
    super(database, url)
    this.#database = database
    this.#options = options
    this.#claiming = new PostgresClaim(database, this.#line)
    this.#expiry = new PostgresExpiry(database)
    this.#notices = new Notifications({
      url,
      statementMs,
      database,
      node,
      onJoined: (turn) => this.#line.joined(turn),
      onLook: () => this.#shareTurn(),
      onChange: onNote,
    })
    this.#writing = new GroupedWrites({
      database,
      line: this.#line,
      maxQueued,
      ...(onCommit && { onCommit }),
      onJoined: () => this.#notices.jobJoined(this.#line.turn),
    })
    this.#reading = new PostgresRead(database)
    this.#callbacks = new PostgresCallbacks(database)
  }

  async begin(): Promise<void> {
    await this.#notices.begin()
  }

  subscribe(events: NodeEvents): void {
    this.#notices.subscribe(events)
  }

  accept(acceptance: Acceptance): Promise<Accepted> {
    return this.#writing.accept(acceptance)
  }

  acceptEnded(job: Job, settlement: Settlement): Promise<void> {
    return this.#writing.acceptEnded(job, settlement)
  }

  claim(node: string, limit: number, nowMs: number, suspects?: PoisonCandidates): Promise<ClaimedJob[]> {
    return this.#claiming.claim(node, limit, nowMs, suspects ?? null)
  }

  async settle(settlement: Settlement): Promise<Settled> {
    const { settled, origin } = await this.#writing.settle(settlement)
    if (settled === 'settled' && origin !== null && origin !== settlement.node) {
      this.#notices.settledFor(origin, settlement.jobId)
    }
    return settled
  }

  async release(node: string, claims: readonly Claim[]): Promise<void> {
    await this.#claiming.giveBack(node, claims)
    this.#notices.jobJoined(this.#line.turn)
  }

  async rescue(node: string, nowMs: number): Promise<number> {
    const reclaimed = await this.#claiming.reclaim(node, nowMs)
    if (reclaimed > 0) this.#notices.jobJoined(this.#line.turn)
    return reclaimed
  }

  findResponse(fingerprint: string, nowMs: number): Promise<string | null> {
    return this.#reading.recall(fingerprint, nowMs)
  }

  read(account: string, jobId: string, expiry: Expiry): Promise<JobRecord | null> {
    return this.#reading.read({ account, jobId, expiry })
  }

  readEnded(jobIds: readonly string[]): Promise<EndedJob[]> {
    return readEnded(this.#database, jobIds)
  }

  expire(expiry: Expiry): Promise<boolean> {
    return this.#expiry.step(expiry)
  }

  takeCallbacks(take: TakeCallbacks): Promise<DueCallback[]> {
    return this.#callbacks.take(take)
  }

  takeDeferred(take: TakeDeferred): Promise<DueCallback[]> {
    return this.#callbacks.takePostponed(take)
  }

  loadCallback(callback: CallbackToLoad): Promise<CallbackBody | null> {
    return this.#callbacks.load(callback)
  }

  recordCallback(record: AttemptRecord): Promise<boolean> {
    return this.#callbacks.record(record)
  }

  deferCallbacks(node: string, postponed: readonly DeferredCallback[]): Promise<void> {
    return this.#callbacks.postpone(node, postponed)
  }

  callbackDepth(): Promise<CallbackDepth> {
    return this.#callbacks.depth()
  }

  depth(): Promise<Depth> {
    return readDepth(this.#database)
  }

  async ping(): Promise<void> {
    await this.#database.query(PROBE, [this.#options.nowMs()])
  }

  renew(node: string, leaseMs: number): Promise<Renewal> {
    return renew(this.#database, node, leaseMs, this.#line.turn)
  }

  leave(node: string): Promise<void> {
    return leave(this.#database, node)
  }

  takeCancelled(node: string): Promise<Claim[]> {
    return takeCancelled(this.#database, node)
  }

  override close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    await Promise.all([this.#writing.drained(), this.#reading.drained(), this.#callbacks.drained()])
    await this.#notices.close()
    await this.#database.close()
  }

  #shareTurn(): void {
    shareTurn(this.#database, this.#options.node, this.#line.turn).then(
      (turn) => this.#line.reached(turn),
      // The next look is in a second.
      () => {},
    )
  }
}

const PROBE: Statement = { repeatable: true, name: 'probe', text: 'update probe set at_ms = $1' }
