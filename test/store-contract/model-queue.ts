/** Implements the queue as its contract describes it: the turns of jobs, where walks begin, suspects, crashes and waits. */
import type { ClaimFrom, ClaimOfRoute, PastPatience } from '../../src/store/store.ts'

export interface ModelJob {
  readonly id: string
  readonly account: string
  readonly createdAtMs: number
  route: string
  status: 'pending' | 'assigned' | 'completed' | 'failed'
  turn: number | null
  node: string | null
  attempt: number
  crashCount: number
  crashedAlone: boolean
  started: number
  waitsSinceMs: number | null
  waitedMs: number
  /** Earlier runs have made this many calls. */
  calls: number
}

export const hasEnded = ({ status }: ModelJob) => status === 'completed' || status === 'failed'

interface Found {
  readonly jobs: readonly Pick<ModelJob, 'id' | 'attempt' | 'crashCount' | 'crashedAlone'>[]
  readonly mayHaveMore: boolean
}

/** A walk skips the jobs that are before this place in the queue. */
type PlaceKey = readonly [turn: number, id: string]
const FRONT: PlaceKey = [0, '']

const isBefore = ([turn, id]: PlaceKey, [otherTurn, otherId]: PlaceKey) =>
  turn < otherTurn || (turn === otherTurn && id < otherId)
const keyOf = ({ turn, id }: ModelJob): PlaceKey => [turn ?? 0, id]

export class ModelQueue {
  readonly jobs = new Map<string, ModelJob>()
  readonly #turns = new Map<string, number>()
  readonly #places = new Map<string, PlaceKey>()

  queued(route?: string): ModelJob[] {
    return [...this.jobs.values()]
      .filter((job) => job.turn !== null && (route === undefined || job.route === route))
      .sort((one, other) => (isBefore(keyOf(one), keyOf(other)) ? -1 : 1))
  }

  /** @param job is handed off to its `node`, or queued if that is null */
  add({
    step,
    ...job
  }: Pick<ModelJob, 'id' | 'account' | 'route' | 'createdAtMs' | 'node'> & { step: number }): void {
    const isQueued = job.node === null
    const { account, route } = job
    const last = this.queued(route).findLast((other) => other.account === account && other.crashCount === 0)
    const turn = Math.max(this.#headTurn(route), (last?.turn ?? -step) + step)
    this.jobs.set(job.id, {
      ...job,
      status: isQueued ? 'pending' : 'assigned',
      turn: isQueued ? turn : null,
      attempt: isQueued ? 0 : 1,
      crashCount: 0,
      crashedAlone: false,
      started: 0,
      waitsSinceMs: null,
      waitedMs: 0,
      calls: 0,
    })
    if (isQueued) this.#joined(route, turn)
  }

  return(job: ModelJob): void {
    const turn = this.#headTurn(job.route)
    Object.assign(job, { turn, node: null })
    this.#joined(job.route, turn)
  }

  someIds(): string[] {
    return [...this.jobs.keys()].filter((_, index) => index % 3 === 0)
  }

  /**
   * @param seen what a store claimed. A shared store may begin at the front from time to time, because it may have missed jobs
   */
  claim(node: string, limit: number, from: ClaimFrom, seen: Found, isShared: boolean): Found {
    if (from.of === 'route') return this.#walk(node, limit, from, seen, isShared)
    const found = this.queued().filter((job) =>
      from.of === 'account'
        ? job.crashCount === 0 &&
          job.route === from.route &&
          job.account === from.account &&
          !from.exceptJobs.includes(job.id)
        : job.crashCount === from.crashCount && !from.exceptRoutes.includes(job.route),
    )
    return this.#assign(node, limit, from, found)
  }

  #walk(node: string, limit: number, from: ClaimOfRoute, seen: Found, isShared: boolean): Found {
    const { route, exceptAccounts, exceptJobs } = from
    const isFree = ({ id, account, crashCount }: ModelJob) =>
      crashCount === 0 && !exceptAccounts.includes(account) && !exceptJobs.includes(id)
    const ahead = (place: PlaceKey) => this.queued(route).filter((job) => !isBefore(keyOf(job), place))
    const place = this.#places.get(route) ?? FRONT
    const isExpected = ahead(place)
      .filter(isFree)
      .slice(0, limit)
      .every(({ id }, index) => seen.jobs[index]?.id === id)
    const begun = isShared && !from.keepsPlace && !isExpected ? FRONT : place
    const rows = ahead(begun)
    const found = rows.filter(isFree)
    const last = found.length >= limit ? found[limit - 1] : rows.at(-1)
    const end = last === undefined ? begun : keyOf(last)
    const pin = rows.find(({ id }) => exceptJobs.includes(id))
    if (!from.keepsPlace) this.#places.set(route, pin && isBefore(keyOf(pin), end) ? keyOf(pin) : end)
    return this.#assign(node, limit, from, found)
  }

  #assign(node: string, limit: number, from: ClaimFrom, found: readonly ModelJob[]): Found {
    const claimed = found.slice(0, limit)
    for (const job of claimed) {
      if (from.of !== 'suspects') this.#claimed(from.route, job.turn ?? 0)
      Object.assign(job, { status: 'assigned', turn: null, node, attempt: job.attempt + 1 })
    }
    const jobs = claimed.map(({ id, attempt, crashCount, crashedAlone }) => ({
      id,
      attempt,
      crashCount,
      crashedAlone,
    }))
    return { jobs, mayHaveMore: jobs.length === limit }
  }

  /** Crashes all other nodes. Returns how many jobs the survivor rescues. */
  crash(survivor: string): number {
    this.#turns.clear()
    this.#places.clear()
    const lost = [...this.jobs.values()].filter(({ node }) => node !== null && node !== survivor)
    const suspects = lost.filter(({ crashCount, started, attempt }) => crashCount > 0 && started === attempt)
    const others = lost.filter(({ crashCount }) => crashCount === 0)
    const ofNode = (jobs: readonly ModelJob[], node: string | null) =>
      jobs.filter((job) => job.node === node).length
    const alone = [
      ...suspects.filter(({ node }) => ofNode(suspects, node) === 1),
      ...others.filter(({ node }) => ofNode(others, node) === 1 && ofNode(suspects, node) === 0),
    ]
    for (const job of [...suspects, ...others]) {
      Object.assign(job, { crashCount: job.crashCount + 1, crashedAlone: alone.includes(job) })
    }
    for (const job of lost) this.return(job)
    return lost.length
  }

  takeOverdue({ route, account, unavailableSinceMs, patienceMs }: PastPatience, nowMs: number): ModelJob[] {
    const beforeMs = nowMs - patienceMs
    const overdue = this.queued(route).filter((job) => {
      if (account !== null && job.account !== account) return false
      if (job.waitsSinceMs === null) return job.createdAtMs < beforeMs && unavailableSinceMs <= beforeMs
      return Math.max(job.waitsSinceMs, unavailableSinceMs) - job.waitedMs <= beforeMs
    })
    for (const job of overdue) Object.assign(job, { status: 'failed', turn: null })
    return overdue
  }

  #headTurn(route: string): number {
    const turn = this.#turns.get(route) ?? 0
    return this.queued(route).find((job) => (job.turn ?? 0) >= turn)?.turn ?? turn
  }

  #joined(route: string, turn: number): void {
    if (turn <= (this.#places.get(route) ?? FRONT)[0]) this.#places.set(route, [turn, ''])
  }

  #claimed(route: string, turn: number): void {
    const [placeTurn] = this.#places.get(route) ?? FRONT
    this.#turns.set(route, Math.max(this.#turns.get(route) ?? 0, Math.min(turn, placeTurn)))
  }
}
