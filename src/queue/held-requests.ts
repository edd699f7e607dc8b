/**
 * Requests that are held until their job has ended, and those that are sent again: such a request joins the job of an equal one that
 * nobody has got the answer of, instead of creating another. It joins if it says that it is a retry, or if the callers of that
 * job have left within the last minutes. Parallel equal requests whose callers wait are wanted, so they never join.
 *
 * A held request is stored with its job, in the same write, under a key that no other request has: a hash of the request and the
 * job's ID. Its row says on which nodes its callers wait. It changes only if a caller leaves or joins, and is deleted once the answer
 * has been written. The callers of a dead node have left. A node without a lease (`--role api`) has no name here; its callers count
 * as waiting, which matters only to requests that do not say that they are retries.
 */
import type { Clock } from '../clock.ts'
import { HASH_DIGITS } from '../job/request-hash.ts'
import type { HeldRequest } from '../store/held-request-store.ts'
import type { Idempotency, Store } from '../store/store.ts'

/** What the row says; as JSON text, it changes only if it is as it was read. */
interface State {
  /** The node of each caller that waits. */
  readonly callers: readonly string[]
  /** When a caller last came or left. */
  readonly atMs: number
}

/** A caller's hold on a job. */
export interface Hold {
  readonly account: string
  readonly key: string
  readonly jobId: string
}

export interface EqualRequest {
  readonly account: string
  /** From `hashOfRequest`. */
  readonly hash: string
  /** Whether the caller says that it has sent this request before. */
  readonly isRetry: boolean
}

export interface HeldRequestsOptions {
  readonly store: Pick<
    Store,
    'heldRequests' | 'changeHeldRequest' | 'forgetHeldRequests' | 'liveNodes' | 'shared'
  >
  /** Null if it has no lease. */
  readonly node: string | null
  readonly clock: Pick<Clock, 'nowMs'>
  /** How long after the callers of a job have left a request joins that does not say that it is a retry. */
  readonly rejoinMs: number
  readonly onError: (error: unknown) => void
}

/** After this, a request that nobody has got the answer of is forgotten. */
const REMEMBER_MS = 86_400_000

interface Lookup {
  readonly wanted: { readonly account: string; readonly prefix: string }[]
  readonly rows: Promise<readonly HeldRequest[]>
}

const prefixOf = (hash: string) => `held ${hash} `
const PREFIX_LENGTH = prefixOf('').length + HASH_DIGITS

export class HeldRequests {
  readonly #options: HeldRequestsOptions
  /** Writes about callers that left, which requests that arrive later must see. */
  readonly #leaving = new Set<Promise<void>>()
  /** Answered requests whose rows are still there. */
  readonly #answered = new Map<string, Hold>()
  #isForgetting = false
  /** When callers left, by the start of the key, in the order of time; used only where no other node shares the database. */
  readonly #leftAtMs = new Map<string, number>()
  readonly #startedMs: number
  /** The next lookup, which gathers what is wanted until the last one has ended: on Postgres, each is a statement. */
  #gathering: Lookup | null = null
  #lastLookup: Promise<unknown> = Promise.resolve()

  constructor(options: HeldRequestsOptions) {
    this.#options = options
    this.#startedMs = options.clock.nowMs()
  }

  /** What `accept` stores with the job of a request whose caller waits. */
  keyOf(hash: string, jobId: string): Idempotency {
    const nowMs = this.#options.clock.nowMs()
    const state: State = { callers: [this.#node], atMs: nowMs }
    return {
      key: `${prefixOf(hash)}${jobId}`,
      fingerprint: JSON.stringify(state),
      untilMs: nowMs + REMEMBER_MS,
    }
  }

  /** Joins the job of an equal request, if there is one to join: one without callers first, then the fewest, the oldest first. */
  async join(request: EqualRequest): Promise<Hold | null> {
    const { store, clock } = this.#options
    const { account, hash } = request
    if (!this.#mayJoin(request)) return null
    if (this.#leaving.size > 0) await Promise.all(this.#leaving)
    for (;;) {
      const rows = await this.#find(account, prefixOf(hash))
      const open = rows.filter(({ key }) => !this.#answered.has(key))
      const chosen = open.length === 0 ? undefined : await this.#choose(open, request)
      if (chosen === undefined) return null
      const { key, jobId, state, waiting } = chosen
      const joined = { callers: [...waiting, this.#node], atMs: clock.nowMs() }
      if (await store.changeHeldRequest(account, key, state, JSON.stringify(joined))) {
        return { account, key, jobId }
      }
    }
  }

  /** The caller left without an answer. Resolves when later requests can see it; never rejects. */
  left(hold: Hold): Promise<void> {
    this.#noteLeft(hold)
    const done = this.#leave(hold, this.#options.clock.nowMs()).catch(this.#options.onError)
    this.#leaving.add(done)
    return done.finally(() => this.#leaving.delete(done))
  }

  /** The answer has been written to the caller, or the job no longer exists. */
  answered(hold: Hold): void {
    this.#answered.set(hold.key, hold)
    if (!this.#isForgetting) void this.#forget()
  }

  get #node(): string {
    return this.#options.node ?? ''
  }

  /** Without asking the store: usually nobody has left. */
  #mayJoin({ hash, isRetry }: EqualRequest): boolean {
    const { store, clock, rejoinMs } = this.#options
    // The callers of an earlier process have left when it ended.
    if (isRetry || store.shared || clock.nowMs() < this.#startedMs + rejoinMs) return true
    return this.#leftAtMs.has(prefixOf(hash))
  }

  #noteLeft({ key }: Hold): void {
    const { store, clock, rejoinMs } = this.#options
    if (store.shared) return
    const prefix = key.slice(0, PREFIX_LENGTH)
    this.#leftAtMs.delete(prefix)
    this.#leftAtMs.set(prefix, clock.nowMs())
    for (const [earliest, atMs] of this.#leftAtMs) {
      if (atMs > clock.nowMs() - rejoinMs) break
      this.#leftAtMs.delete(earliest)
    }
  }

  async #find(account: string, prefix: string): Promise<readonly HeldRequest[]> {
    this.#gathering ??= this.#nextLookup()
    this.#gathering.wanted.push({ account, prefix })
    const rows = await this.#gathering.rows
    return rows.filter((row) => row.account === account && row.key.startsWith(prefix))
  }

  #nextLookup(): Lookup {
    const { store, clock } = this.#options
    const wanted: Lookup['wanted'] = []
    const rows = this.#lastLookup.then(() => {
      this.#gathering = null
      return store.heldRequests(
        wanted.map(({ account }) => account),
        wanted.map(({ prefix }) => prefix),
        clock.nowMs(),
      )
    })
    this.#lastLookup = rows.catch(() => {})
    return { wanted, rows }
  }

  async #choose(rows: readonly HeldRequest[], { isRetry }: EqualRequest) {
    const { store, clock, rejoinMs } = this.#options
    const states = rows.map((row) => ({ ...row, ...(JSON.parse(row.state) as State) }))
    const isOurs = (node: string) => node === this.#node || node === ''
    const mustAsk = states.some(({ callers }) => !callers.every(isOurs))
    const live = new Set(mustAsk ? await store.liveNodes() : [])
    return states
      .map((state) => {
        return { ...state, waiting: state.callers.filter((node) => isOurs(node) || live.has(node)) }
      })
      .filter(({ waiting, atMs }) => {
        return isRetry || (waiting.length === 0 && atMs > clock.nowMs() - rejoinMs)
      })
      .sort(
        (one, other) => one.waiting.length - other.waiting.length || (one.jobId < other.jobId ? -1 : 1),
      )[0]
  }

  async #leave({ account, key }: Hold, atMs: number): Promise<void> {
    const { store } = this.#options
    for (;;) {
      const rows = await this.#find(account, key.slice(0, PREFIX_LENGTH))
      const row = rows.find((row) => row.key === key)
      if (row === undefined) return
      const { callers }: State = JSON.parse(row.state)
      const at = callers.indexOf(this.#node)
      const state = JSON.stringify({ callers: callers.toSpliced(at, 1), atMs })
      if (at === -1 || (await store.changeHeldRequest(account, key, row.state, state))) return
    }
  }

  /** What was answered while rows are being deleted is deleted together. */
  async #forget(): Promise<void> {
    this.#isForgetting = true
    try {
      while (this.#answered.size > 0) {
        const holds = [...this.#answered.values()]
        await this.#options.store.forgetHeldRequests(
          [...new Set(holds.map(({ account }) => account))],
          holds.map(({ key }) => key),
        )
        for (const { key } of holds) this.#answered.delete(key)
      }
    } catch (error) {
      // They are deleted with the next ones, or when they expire.
      this.#options.onError(error)
    } finally {
      this.#isForgetting = false
    }
  }
}
