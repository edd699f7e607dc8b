/**
 * Lets equal requests join a job. A held request waits until its job has finished. Until somebody has received the answer, an
 * equal request joins the job instead of creating another job in two cases: its caller declares a retry, or all callers of the
 * job disconnected within the last minutes. Equal requests in parallel, whose callers all wait, create separate jobs, because
 * they are probably intended.
 *
 * A held request is stored in the same write as its job. Its key is unique: a hash of the request and the job's ID. Its row
 * lists the nodes on which its callers wait, and changes only if a caller leaves or joins. The row is deleted after the answer
 * was sent. Callers on a dead node count as gone. Callers on a node without a lease (`--role api`), which has no name here,
 * count as waiting until they leave. So if such a node crashes, only declared retries join their jobs.
 */
import type { Clock } from '../clock.ts'
import { HASH_DIGITS } from '../job/fingerprint.ts'
import type { HeldRequest } from '../store/held-request-store.ts'
import type { Idempotency, Store } from '../store/store.ts'

/** The row stores this as JSON. A write replaces the JSON only if it is unchanged since it was read. */
interface State {
  readonly callers: readonly string[]
  /** When a caller last joined or left. */
  readonly atMs: number
  /**
   * Differs for each change, so that a repeated write recognizes the state that it has already stored. Absent before the first
   * change.
   */
  readonly change?: string
}

export interface Hold {
  readonly account: string
  readonly key: string
  readonly jobId: string
}

export interface EqualRequest {
  readonly account: string
  readonly hash: string
  readonly isRetry: boolean
}

export interface HeldRequestsOptions {
  readonly store: Pick<
    Store,
    'heldRequests' | 'changeHeldRequest' | 'forgetHeldRequests' | 'liveNodes' | 'shared'
  >
  /** `node` is null if the node has no lease. */
  readonly node: string | null
  readonly clock: Pick<Clock, 'nowMs'>
  /** A request that declares no retry joins a job without callers until this long after a caller last joined or left it. */
  readonly rejoinMs: number
  readonly onError: (error: unknown) => void
}

/** The row of an unanswered request is kept for this time. */
const REMEMBER_MS = 86_400_000

interface Lookup {
  readonly wanted: { readonly account: string; readonly prefix: string }[]
  readonly rows: Promise<readonly HeldRequest[]>
}

const prefixOf = (hash: string) => `held ${hash} `
const PREFIX_LENGTH = prefixOf('').length + HASH_DIGITS

export class HeldRequests {
  readonly #options: HeldRequestsOptions
  /** These writes record that callers left. Later requests must see their effect, so they wait for the writes. */
  readonly #leaving = new Set<Promise<void>>()
  readonly #answered = new Map<string, Hold>()
  #isForgetting = false
  /**
   * When callers last left, by the prefix of the key, in order of time. This is used only if no other node can share the
   * database.
   */
  readonly #leftAtMs = new Map<string, number>()
  readonly #startedMs: number
  #changes = 0
  /** The next lookup collects requests until the previous one has ended, so that they share a statement on Postgres. */
  #gathering: Lookup | null = null
  #lastLookup: Promise<unknown> = Promise.resolve()

  constructor(options: HeldRequestsOptions) {
    this.#options = options
    this.#startedMs = options.clock.nowMs()
  }

  keyOf(hash: string, jobId: string): Idempotency {
    const nowMs = this.#options.clock.nowMs()
    const state: State = { callers: [this.#node], atMs: nowMs }
    return {
      key: `${prefixOf(hash)}${jobId}`,
      fingerprint: JSON.stringify(state),
      untilMs: nowMs + REMEMBER_MS,
    }
  }

  /**
   * Joins the job of an equal request, or returns null if there is none to join. Among several jobs, this prefers the one with
   * the fewest waiting callers, and the oldest of these.
   */
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
      const joined = this.#stateOf([...waiting, this.#node], clock.nowMs())
      if (await store.changeHeldRequest(account, key, state, joined)) {
        return { account, key, jobId }
      }
    }
  }

  /**
   * Call this when a caller left without an answer. Resolves when this is stored, or when storing it has failed; never rejects.
   */
  left(hold: Hold): Promise<void> {
    this.#noteLeft(hold)
    const done = this.#leave(hold, this.#options.clock.nowMs()).catch(this.#options.onError)
    this.#leaving.add(done)
    return done.finally(() => this.#leaving.delete(done))
  }

  /** Call this when the answer was sent to the caller, or the job no longer exists. */
  answered(hold: Hold): void {
    this.#answered.set(hold.key, hold)
    if (!this.#isForgetting) void this.#forget()
  }

  get #node(): string {
    return this.#options.node ?? ''
  }

  #stateOf(callers: readonly string[], atMs: number): string {
    this.#changes += 1
    const state: State = { callers, atMs, change: `${this.#node} ${this.#startedMs} ${this.#changes}` }
    return JSON.stringify(state)
  }

  /**
   * Returns false if there cannot be a job to join. If no other node can share the database, this usually saves a query,
   * because few callers leave.
   */
  #mayJoin({ hash, isRetry }: EqualRequest): boolean {
    const { store, clock, rejoinMs } = this.#options
    // `#leftAtMs` does not know the callers of the previous process, which left when that process ended.
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
      const state = this.#stateOf(callers.toSpliced(at, 1), atMs)
      if (at === -1 || (await store.changeHeldRequest(account, key, row.state, state))) return
    }
  }

  /** Deletes the rows of answered requests. Requests that are answered during a statement go into the next one. */
  async #forget(): Promise<void> {
    this.#isForgetting = true
    try {
      while (this.#answered.size > 0) {
        const holds = [...this.#answered.values()]
        await this.#options.store.forgetHeldRequests(
          holds.map(({ account }) => account),
          holds.map(({ key }) => key),
        )
        for (const { key } of holds) this.#answered.delete(key)
      }
    } catch (error) {
      // The rows stay until the next call of `answered`, or until they expire.
      this.#options.onError(error)
    } finally {
      this.#isForgetting = false
    }
  }
}
