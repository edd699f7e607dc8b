/** Fills and empties a queue of several accounts' jobs in a store, as the server does. */
import { randomBytes } from 'node:crypto'
import { issueKey } from '../../src/accounts/key.ts'
import { systemClock } from '../../src/clock.ts'
import { jobIdMaker } from '../../src/job/job-id.ts'
import { openPostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Claimed, NewJob, Store } from '../../src/store/store.ts'

const NODE = 'bench'
/** The setting `postgres.connections` has this default. */
const CONNECTIONS = 10
const RETENTION_MS = 604_800_000
export const ROUTE = 'bench/gpt-5-mini'
const WALK = { of: 'route', route: ROUTE, exceptAccounts: [], exceptJobs: [], keepsPlace: false } as const
export const ACCOUNTS = 100
export const BATCH = 30
const TOGETHER = 64
/** A job delays its account's next turn by one of these numbers. Accounts differ as if they had tiers of different weight. */
export const STEPS = [1000, 500, 250, 125] as const

const accountName = (account: number) => `account-${account}`

export class QueueStore {
  readonly key: string
  readonly #store: Store
  readonly #content: () => string
  readonly #makeId = jobIdMaker(systemClock, (bytes) => randomBytes(bytes).toString('hex'))
  #made = 0

  private constructor(store: Store, key: string, content: () => string) {
    this.key = key
    this.#store = store
    this.#content = content
  }

  static async onSqlite(path: string, content: () => string): Promise<QueueStore> {
    const onFatal = (error: Error) => {
      throw error
    }
    const maxQueued = Number.POSITIVE_INFINITY
    return QueueStore.#on(await openSqliteStore({ path, maxQueued, nowMs: Date.now, onFatal }), content)
  }

  static async onPostgres(url: string, content: () => string): Promise<QueueStore> {
    const store = await openPostgresStore({
      url,
      node: NODE,
      prepare: true,
      statementMs: 60_000,
      connections: CONNECTIONS,
      maxQueued: Number.POSITIVE_INFINITY,
      retentionMs: RETENTION_MS,
      nowMs: Date.now,
      onNote: () => {},
    })
    return QueueStore.#on(store, content)
  }

  static async #on(store: Store, content: () => string): Promise<QueueStore> {
    const keys: string[] = []
    for (let account = 0; account < ACCOUNTS; account++) {
      const owner = {
        account: accountName(account),
        tier: 'user_max',
        expiresDays: null,
        nowMs: Date.now(),
      } as const
      const issued = await issueKey(store, owner)
      if (issued.kind === 'issued') keys.push(issued.key)
    }
    return new QueueStore(store, keys[0] ?? '', content)
  }

  async fill(jobs: number): Promise<void> {
    for (let left = jobs; left > 0; left -= BATCH * TOGETHER) {
      const batches = Math.min(TOGETHER, Math.ceil(left / BATCH))
      await Promise.all(
        Array.from({ length: batches }, (_, index) => this.#accept(Math.min(BATCH, left - index * BATCH))),
      )
    }
  }

  async claims(times: number, jobs: number): Promise<number[]> {
    const took: number[] = []
    for (let time = 0; time < times; time++) {
      const startedMs = performance.now()
      const claimed = (await this.#store.claim(NODE, jobs, Date.now(), WALK)).jobs
      took.push(performance.now() - startedMs)
      if (claimed.length !== jobs) throw new Error(`a claim of ${jobs} jobs gave ${claimed.length}`)
      await Promise.all(claimed.map((job) => this.#settle(job)))
      await this.fill(jobs)
    }
    return took
  }

  async queued(): Promise<number> {
    return (await this.#store.depth()).waiting
  }

  async close(): Promise<void> {
    await this.#store.close()
  }

  async #accept(count: number): Promise<void> {
    const account = this.#made++ % ACCOUNTS
    const jobs = Array.from({ length: count }, () => this.#newJob(account))
    await this.#store.accept({ node: NODE, jobs, idempotency: null, nowMs: Date.now() })
  }

  #newJob(account: number): NewJob {
    const content = this.#content()
    const messages = [{ role: 'user', content }] as const
    const job = {
      id: this.#makeId(),
      account: accountName(account),
      tier: 'user_max',
      model: 'gpt-5-mini',
      messagesJson: JSON.stringify(messages),
      responseFormatJson: '{"format":"text"}',
      cacheTtlMs: 300_000,
      callbackJson: null,
      createdAtMs: Date.now(),
      inputTokens: content.length,
    }
    const step = STEPS[account % STEPS.length] ?? STEPS[0]
    return { job, handedOff: false, awaited: false, route: ROUTE, step }
  }

  async #settle({ id, attempt }: Claimed['jobs'][number]): Promise<void> {
    const settled = await this.#store.settle({
      jobId: id,
      node: NODE,
      attempt,
      model: 'gpt-5-mini',
      outcome: { status: 'completed', contentJson: '"An answer."' },
      usage: {
        target: 'openai/bench',
        input_tokens: 256,
        output_tokens: 24,
        calls: 1,
        cache_hit: false,
        repaired: false,
      },
      receiptJson: '{"form":"text","calls":[]}',
      cache: null,
      nowMs: Date.now(),
    })
    if (settled !== 'settled') throw new Error(`a claimed job could not be settled: ${settled}`)
  }
}
