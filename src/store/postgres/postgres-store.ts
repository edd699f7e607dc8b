/** The store on Postgres, as one of many nodes holds it: groups what arrives together into statements of many rows. */
import type { TierName } from '../../config/settings.ts'
import type { ClaimedJob, Job } from '../../job/job.ts'
import type { KeyRecord, NewKey, NewKeyResult, Secrets } from '../account-store.ts'
import type { CallbackNext, DueCallback } from '../callback-store.ts'
import { GroupCommit } from '../group-commit.ts'
import type { Claim, Renewal, Signals } from '../node-store.ts'
import type {
  Acceptance,
  Accepted,
  Depth,
  EndedJob,
  Expiry,
  JobRecord,
  Settled,
  Settlement,
  Store,
  Suspects,
} from '../store.ts'
import { Accepting, type NewEndedJob } from './accepting.ts'
import { PostgresAccounts } from './accounts.ts'
import { recordCallback, takeCallbacks } from './callbacks.ts'
import { Claiming } from './claiming.ts'
import { weightOfJob } from './columns.ts'
import { Database, type Statement } from './database.ts'
import { eachAlone, untilKnown } from './doubt.ts'
import { OutcomeUnknown } from './errors.ts'
import { PostgresExpiry } from './expiry.ts'
import { checkFitness } from './fitness.ts'
import { Line } from './line.ts'
import { leave, renew, shareTurn } from './nodes.ts'
import { Notices } from './notices.ts'
import { keepPartitions } from './partitions.ts'
import { type ReadJob, type Recall, readDepth, readEnded, readJobs, recallAll } from './reading.ts'
import { migratePostgres } from './schema.ts'
import { type SettledJob, settleAll } from './settling.ts'

const MAX_GROUP = 512
/** Characters in one statement: what more would gain is lost in its memory. */
const MAX_WEIGHT = 4 * 1024 * 1024
/** Statements of a kind under way at once: the next gathers while one waits for the disk, and one while it is sent. */
const IN_FLIGHT = 2

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
  readonly signals: Signals
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

class PostgresStore implements Store {
  readonly shared = true
  readonly #database: Database
  readonly #options: PostgresStoreOptions
  readonly #line = new Line()
  readonly #accounts: PostgresAccounts
  readonly #accepting: Accepting
  readonly #claiming: Claiming
  readonly #expiry: PostgresExpiry
  readonly #notices: Notices
  readonly #acceptances: GroupCommit<Acceptance>
  readonly #ended: GroupCommit<NewEndedJob>
  readonly #settlements: GroupCommit<Settlement>
  readonly #reads: GroupCommit<ReadJob>
  readonly #recalls: GroupCommit<Recall>
  /** Jobs of settlements that may have been carried out though their answer was lost. */
  readonly #doubtful = new Set<string>()
  #closed: Promise<void> | null = null

  constructor(database: Database, options: PostgresStoreOptions) {
    const { maxQueued, onCommit, node, url, statementMs, signals, onNote } = options
    this.#database = database
    this.#options = options
    this.#accounts = new PostgresAccounts(database)
    this.#accepting = new Accepting(database, this.#line)
    this.#claiming = new Claiming(database, this.#line)
    this.#expiry = new PostgresExpiry(database)
    this.#notices = new Notices({
      url,
      statementMs,
      database,
      node,
      signals,
      onJoined: (turn) => this.#line.joined(turn),
      onLook: () => this.#shareTurn(),
      onChange: onNote,
    })
    const writes = { inFlight: IN_FLIGHT, maxGroup: MAX_GROUP, maxQueued, ...(onCommit && { onCommit }) }
    const reads = { inFlight: IN_FLIGHT, maxGroup: MAX_GROUP, maxQueued: Number.POSITIVE_INFINITY }
    this.#acceptances = new GroupCommit({
      ...writes,
      weight: { of: weightOfAcceptance, max: MAX_WEIGHT },
      commit: (group) => this.#acceptAll(group),
    })
    this.#ended = new GroupCommit({
      ...writes,
      weight: {
        of: ({ job, settlement }) => weightOfJob(job) + weightOfSettlement(settlement),
        max: MAX_WEIGHT,
      },
      commit: (group) => eachAlone(group, (some) => this.#acceptAllEnded(some)),
    })
    this.#settlements = new GroupCommit({
      ...writes,
      weight: { of: weightOfSettlement, max: MAX_WEIGHT },
      commit: (group) => eachAlone(group, (some) => this.#settleAll(some)),
    })
    this.#reads = new GroupCommit({
      ...reads,
      commit: (group) => eachAlone(group, (some) => readJobs(this.#database, some)),
    })
    this.#recalls = new GroupCommit({
      ...reads,
      commit: (group) => eachAlone(group, (some) => recallAll(this.#database, some)),
    })
  }

  async begin(): Promise<void> {
    await this.#notices.begin()
  }

  accept(acceptance: Acceptance): Promise<Accepted> {
    return this.#acceptances.submit(acceptance, true)
  }

  acceptEnded(job: Job, settlement: Settlement): Promise<void> {
    return this.#ended.submit({ job, settlement }, true)
  }

  claim(node: string, limit: number, _nowMs: number, suspects?: Suspects): Promise<ClaimedJob[]> {
    return this.#claiming.claim(node, limit, suspects ?? null)
  }

  async settle(settlement: Settlement): Promise<Settled> {
    const { settled, origin } = await this.#settlements.submit<SettledJob>(settlement)
    if (settled === 'settled' && origin !== null && origin !== settlement.node) {
      this.#notices.settledFor(origin, settlement.jobId)
    }
    return settled
  }

  async giveBack(node: string, claims: readonly Claim[]): Promise<void> {
    await this.#claiming.giveBack(node, claims)
    this.#notices.jobJoined(this.#line.turn)
  }

  async reclaim(node: string): Promise<number> {
    const reclaimed = await this.#claiming.reclaim(node)
    if (reclaimed > 0) this.#notices.jobJoined(this.#line.turn)
    return reclaimed
  }

  recall(fingerprint: string, nowMs: number): Promise<string | null> {
    return this.#recalls.submit({ fingerprint, nowMs })
  }

  read(account: string, jobId: string, expiry: Expiry): Promise<JobRecord | null> {
    return this.#reads.submit({ account, jobId, expiry })
  }

  readEnded(jobIds: readonly string[]): Promise<EndedJob[]> {
    return readEnded(this.#database, jobIds)
  }

  expire(expiry: Expiry): Promise<boolean> {
    return this.#expiry.step(expiry)
  }

  takeCallbacks(limit: number, nowMs: number, leaseUntilMs: number): Promise<DueCallback[]> {
    return takeCallbacks(this.#database, limit, nowMs, leaseUntilMs)
  }

  recordCallback(jobId: string, attempt: number, next: CallbackNext, nowMs: number): Promise<boolean> {
    return recordCallback(this.#database, jobId, attempt, next, nowMs)
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

  createKey(key: NewKey): Promise<NewKeyResult> {
    return this.#accounts.createKey(key)
  }

  listKeys(): Promise<KeyRecord[]> {
    return this.#accounts.listKeys()
  }

  revokeKey(keyId: string, nowMs: number): Promise<'revoked' | 'revoked before' | 'unknown'> {
    return this.#accounts.revokeKey(keyId, nowMs)
  }

  findKey(hash: string): Promise<KeyRecord | null> {
    return this.#accounts.findKey(hash)
  }

  setTier(account: string, tier: TierName): Promise<boolean> {
    return this.#accounts.setTier(account, tier)
  }

  secrets(account: string): Promise<Secrets | null> {
    return this.#accounts.secrets(account)
  }

  rotateSecret(account: string, secret: string, nowMs: number): Promise<boolean> {
    return this.#accounts.rotateSecret(account, secret, nowMs)
  }

  hasAccounts(): Promise<boolean> {
    return this.#accounts.hasAccounts()
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    const groups = [this.#acceptances, this.#ended, this.#settlements, this.#reads, this.#recalls]
    await Promise.all(groups.map((group) => group.drained()))
    await this.#notices.close()
    await this.#database.close()
  }

  /** Those with an idempotency key go one by one, each in a transaction of its own. */
  async #acceptAll(group: readonly Acceptance[]) {
    const plain = group.filter(({ idempotency }) => idempotency === null)
    const together = eachAlone(plain, (some) => this.#acceptPlain(some))
    const keyed = group.filter(({ idempotency }) => idempotency !== null)
    const alone = Promise.all(keyed.map((one) => eachAlone([one], (some) => this.#acceptKeyed(some))))
    const results = new Map([...zip(plain, await together), ...zip(keyed, (await alone).flat())])
    return group.map(
      (acceptance) => results.get(acceptance) ?? { error: new Error('an acceptance was lost') },
    )
  }

  async #acceptPlain(acceptances: readonly Acceptance[]): Promise<Accepted[]> {
    await untilKnown(
      () => this.#accepting.accept(acceptances, 'first'),
      () => this.#accepting.accept(acceptances, 'again'),
    )
    this.#tellOfWaiting(acceptances)
    return acceptances.map(() => ({ kind: 'accepted' }))
  }

  async #acceptKeyed(acceptances: readonly Acceptance[]): Promise<Accepted[]> {
    const [acceptance] = acceptances
    const idempotency = acceptance?.idempotency
    if (!acceptance || !idempotency) throw new Error('an acceptance lost its key')
    const accept = () => this.#accepting.acceptOnce(acceptance, idempotency)
    const accepted = await untilKnown(accept, accept)
    if (accepted.kind === 'accepted') this.#tellOfWaiting(acceptances)
    return [accepted]
  }

  #tellOfWaiting(acceptances: readonly Acceptance[]): void {
    const some = acceptances.some(({ jobs }) => jobs.some(({ handedOff }) => !handedOff))
    if (some) this.#notices.jobJoined(this.#line.turn)
  }

  async #acceptAllEnded(ended: readonly NewEndedJob[]): Promise<undefined[]> {
    await untilKnown(
      () => this.#accepting.acceptEnded(ended, 'first'),
      () => this.#accepting.acceptEnded(ended, 'again'),
    )
    return ended.map(() => undefined)
  }

  /** Rejects rather than repeats: whoever settles tries again until it is known, however long that takes. */
  async #settleAll(settlements: readonly Settlement[]): Promise<SettledJob[]> {
    try {
      const settled = await settleAll(this.#database, settlements, this.#doubtful)
      for (const { jobId } of settlements) this.#doubtful.delete(jobId)
      return settled
    } catch (error) {
      if (error instanceof OutcomeUnknown) for (const { jobId } of settlements) this.#doubtful.add(jobId)
      throw error
    }
  }

  #shareTurn(): void {
    shareTurn(this.#database, this.#options.node, this.#line.turn).then(
      (turn) => this.#line.reached(turn),
      // The next look is in a second.
      () => {},
    )
  }
}

function weightOfAcceptance({ jobs }: Acceptance): number {
  return jobs.reduce((total, { job }) => total + weightOfJob(job), 0)
}

function weightOfSettlement({ outcome, receiptJson }: Settlement): number {
  const content = outcome.status === 'completed' ? outcome.contentJson : (outcome.error.raw_text ?? '')
  return 300 + content.length + receiptJson.length
}

function zip<A, B>(keys: readonly A[], values: readonly B[]): [A, B][] {
  return keys.flatMap((key, index) => {
    const value = values[index]
    return value === undefined ? [] : [[key, value] as [A, B]]
  })
}

const PROBE: Statement = { repeatable: true, name: 'probe', text: 'update probe set at_ms = $1' }
