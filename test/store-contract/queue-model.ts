/**
 * Compares the queue with its model in random histories of accept, claim, settle, release, cancel, delete, wait and crash. A few
 * lines in memory implement the same promises (`model-queue.ts`). A failure prints the seed and the shortest history that shows
 * it.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Claim } from '../../src/store/node-store.ts'
import type { Claimed, ClaimFrom, Overdue, Store } from '../../src/store/store.ts'
import {
  acceptance,
  addAccounts,
  COMPLETED,
  inPlace,
  type MakePlace,
  newJob,
  now,
  OF_ROUTE,
  type Place,
  SUSPECTS,
  settlement,
} from './fixtures.ts'
import { hasEnded, ModelQueue } from './model-queue.ts'

interface Model {
  readonly queue: ModelQueue
  /** Every claim so far, including stale ones. */
  readonly claims: (Claim & { readonly node: string })[]
  /** Ended jobs, including deleted ones. */
  ended: number
}

interface Real {
  store: Store
  readonly place: Place
}

type Step = fc.AsyncCommand<Model, Real>

const NODES = ['node-a', 'node-b']
/** Each node remembers for itself where to continue its walk of a route, so one node makes all walks. */
const WALKER = 'node-a'
const ROUTES = ['', 'x/m']
const ACCOUNTS = ['one', 'two', 'three']
const STEP_MS = 1000

/** There are several accounts, so that the order between accounts matters. */
class Accept implements Step {
  readonly count: number
  readonly account: string
  readonly route: string
  readonly handedOff: boolean
  readonly node: string
  readonly step: number
  constructor(count: number, account: string, route: string, handedOff: boolean, node: string, step: number) {
    this.count = count
    this.account = account
    this.route = route
    this.handedOff = handedOff
    this.node = node
    this.step = step
  }
  check = () => true
  async run({ queue, claims }: Model, real: Real) {
    now.ms += STEP_MS
    const { node, handedOff, step, route, account } = this
    const jobs = Array.from({ length: this.count }, () => newJob({ account }))
    assert.deepEqual(await real.store.accept(acceptance(jobs, { node, handedOff, step, route })), {
      kind: 'accepted',
    })
    for (const { id, createdAtMs } of jobs) {
      queue.add({ id, account, route, createdAtMs, step, node: handedOff ? node : null })
      if (handedOff) claims.push({ jobId: id, attempt: 1, node })
    }
  }
  toString = () =>
    `accept(${this.count}, ${this.account} '${this.route}', ${this.handedOff ? this.node : `queued, step ${this.step}`})`
}

class ClaimSome implements Step {
  readonly node: string
  readonly limit: number
  readonly from: ClaimFrom
  constructor(node: string, limit: number, from: ClaimFrom) {
    this.node = node
    this.limit = limit
    this.from = from
  }
  check = () => true
  async run({ queue, claims }: Model, real: Real) {
    const { node, limit } = this
    // These are some of the existing jobs, because a history cannot name them.
    const exceptJobs = 'exceptJobs' in this.from && this.from.exceptJobs.length > 0 ? queue.someIds() : []
    const from = 'exceptJobs' in this.from ? { ...this.from, exceptJobs } : this.from
    const claimed = await real.store.claim(node, limit, now.ms, from)
    const found = queue.claim(node, limit, from, shownOf(claimed), real.store.shared)
    assert.deepEqual(shownOf(claimed), found)
    for (const { id, attempt } of claimed.jobs) claims.push({ jobId: id, attempt, node })
  }
  toString = () => `claim(${this.node}, ${this.limit}, ${JSON.stringify(this.from)})`
}

function shownOf({ jobs, mayHaveMore }: Claimed) {
  const shown = jobs.map(({ id, attempt, crashCount, crashedAlone }) => ({
    id,
    attempt,
    crashCount,
    crashedAlone,
  }))
  return { jobs: shown, mayHaveMore }
}

/** Settles or releases any claim so far, current or stale, or records its start. */
class UseClaim implements Step {
  readonly pick: number
  readonly how: 'settle' | 'release' | 'wait' | 'start'
  constructor(pick: number, how: UseClaim['how']) {
    this.pick = pick
    this.how = how
  }
  check = ({ claims }: Readonly<Model>) => claims.length > 0
  async run(model: Model, { store }: Real) {
    const claim = model.claims[this.pick % model.claims.length]
    assert.ok(claim)
    const { queue } = model
    const job = queue.jobs.get(claim.jobId)
    const fresh = job?.status === 'assigned' && job.node === claim.node && job.attempt === claim.attempt
    if (this.how === 'settle') {
      const settled = await store.settle(settlement(claim, { node: claim.node, outcome: COMPLETED }))
      assert.equal(settled, fresh ? 'settled' : job ? 'stale' : 'gone')
      if (!fresh) return
      Object.assign(job, { status: 'completed', node: null })
      model.ended += 1
    } else if (this.how === 'release') {
      await store.release(claim.node, [claim])
      if (fresh) queue.return(job)
    } else if (this.how === 'wait') {
      const wait = { route: 'x/m', earlierJson: '{"calls":2}', sinceMs: now.ms, waitedMs: 100 }
      await store.releaseWaiting(claim.node, [{ ...claim, ...wait }])
      if (!fresh) return
      Object.assign(job, { route: wait.route, waitsSinceMs: wait.sinceMs, waitedMs: wait.waitedMs, calls: 2 })
      queue.return(job)
    } else {
      await store.recordStarts(claim.node, [claim])
      if (fresh) job.started = job.attempt
    }
  }
  toString = () => `${this.how}(${this.pick})`
}

/** An operator cancels or deletes a job, whatever its state. */
class StepIn implements Step {
  readonly pick: number
  readonly how: 'cancel' | 'delete'
  constructor(pick: number, how: 'cancel' | 'delete') {
    this.pick = pick
    this.how = how
  }
  check = ({ queue }: Readonly<Model>) => queue.jobs.size > 0
  async run(model: Model, real: Real) {
    const { jobs } = model.queue
    const [id, job] = [...jobs][this.pick % jobs.size] ?? []
    assert.ok(id !== undefined && job)
    const ended = hasEnded(job)
    if (this.how === 'delete') {
      assert.equal(await real.store.deleteJob(id), ended ? 'deleted' : 'not ended')
      if (ended) jobs.delete(id)
      return
    }
    assert.equal(await real.store.cancelJob(id, now.ms), ended ? 'ended before' : 'cancelled')
    if (ended) return
    const cancelled = []
    for (const node of NODES) cancelled.push(...(await real.store.takeCancelled(node)))
    if (job.node !== null) assert.deepEqual(cancelled, [{ jobId: id, attempt: job.attempt }])
    Object.assign(job, { status: 'failed', node: null, turn: null })
    model.ended += 1
  }
  toString = () => `${this.how}(${this.pick})`
}

/** The model servers of a route have been unavailable for a while. */
class FailOverdue implements Step {
  readonly route: string
  readonly account: string | null
  readonly patienceMs: number
  readonly unavailableMs: number
  constructor(route: string, account: string | null, patienceMs: number, unavailableMs: number) {
    this.route = route
    this.account = account
    this.patienceMs = patienceMs
    this.unavailableMs = unavailableMs
  }
  check = () => true
  async run(model: Model, real: Real) {
    const { route, account, patienceMs } = this
    const error = { code: 'model_error', message: 'No.' } as const
    const unavailableSinceMs = now.ms - this.unavailableMs
    const overdue: Overdue = { route, account, unavailableSinceMs, patienceMs, error }
    const failed = await real.store.failOverdue(overdue, now.ms, 100)
    const expected = model.queue.takeOverdue(overdue, now.ms)
    const shown = failed.map(({ jobId, usage }) => [jobId, usage.calls])
    assert.deepEqual(shown.sort(), expected.map(({ id, calls }) => [id, calls]).sort())
    model.ended += failed.length
  }
  toString = () => `overdue('${this.route}', ${this.account}, ${this.patienceMs}, ${this.unavailableMs})`
}

/** Crashes all processes; a new one opens the store and rescues their jobs. */
class Crash implements Step {
  readonly survivor: string
  constructor(survivor: string) {
    this.survivor = survivor
  }
  check = () => true
  async run({ queue }: Model, real: Real) {
    await real.store.close()
    real.store = await real.place.open()
    assert.equal(await real.store.rescue(this.survivor, now.ms), queue.crash(this.survivor))
  }
  toString = () => `crash(${this.survivor} goes on)`
}

class Look implements Step {
  check = () => true
  async run({ queue, ended }: Model, { store }: Real) {
    const jobs = [...queue.jobs]
    const { waiting, assigned } = await store.depth()
    assert.equal(waiting, queue.queued().length)
    assert.equal(assigned, jobs.filter(([, job]) => job.node !== null).length)
    const crashCounts = queue.queued().flatMap(({ crashCount }) => (crashCount > 0 ? [crashCount] : []))
    const mostCrashes = Math.max(0, ...crashCounts)
    const withMost = crashCounts.filter((count) => count === mostCrashes).length
    assert.deepEqual(await store.queuedSuspects(), { queued: crashCounts.length, mostCrashes, withMost })
    const routes = queue.queued().flatMap(({ crashCount, route }) => (crashCount === 0 ? [route] : []))
    assert.deepEqual(new Set((await store.queued()).routes), new Set(routes))
    const used = await store.listUsage({ limit: 10 })
    assert.equal(
      used.reduce((sum, record) => sum + record.jobs, 0),
      ended,
    )
    const at = { nowMs: now.ms, retentionMs: 3_600_000 }
    for (const [id, job] of jobs.slice(-5)) {
      const views = await Promise.all(ACCOUNTS.map((account) => store.read(account, id, at)))
      const statuses = views.flatMap((view) => view?.status ?? [])
      assert.deepEqual(statuses, [job.status])
    }
  }
  toString = () => 'look'
}

/** A kind of step that is listed more often is taken more often: opening a store again is slow. */
const accepts = fc
  .tuple(
    fc.integer({ min: 1, max: 5 }),
    fc.constantFrom(...ACCOUNTS),
    fc.constantFrom(...ROUTES),
    fc.constantFrom(false, false, true),
    fc.constantFrom(...NODES),
    fc.constantFrom(1000, 1000, 250),
  )
  .map((fields) => new Accept(...fields))
const walks = fc
  .tuple(
    fc.constantFrom(...ROUTES),
    fc.subarray(ACCOUNTS),
    fc.constantFrom(false, false, true),
    fc.constantFrom(false, false, true),
  )
  .map(([route, some, hasExcepted, keepsPlace]): ClaimFrom => {
    const exceptAccounts = some.length === ACCOUNTS.length ? [] : some
    return { ...OF_ROUTE, route, exceptAccounts, exceptJobs: hasExcepted ? ['some'] : [], keepsPlace }
  })
const lanes = fc
  .tuple(fc.constantFrom(...ROUTES), fc.constantFrom(...ACCOUNTS), fc.constantFrom(false, false, true))
  .map(
    ([route, account, hasExcepted]): ClaimFrom => ({
      of: 'account',
      route,
      account,
      exceptJobs: hasExcepted ? ['some'] : [],
    }),
  )
const suspects = fc
  .tuple(fc.constantFrom(1, 1, 1, 2), fc.constantFrom([], [], ROUTES.slice(1)))
  .map(([crashCount, exceptRoutes]): ClaimFrom => ({ ...SUSPECTS, crashCount, exceptRoutes }))
const claims = fc
  .tuple(fc.constantFrom(...NODES), fc.integer({ min: 1, max: 4 }), fc.oneof(walks, walks, lanes, suspects))
  .map(([node, limit, from]) => new ClaimSome(from.of === 'suspects' ? node : WALKER, limit, from))
const uses = fc
  .tuple(
    fc.nat(200),
    fc.constantFrom(
      'settle' as const,
      'settle' as const,
      'release' as const,
      'wait' as const,
      'start' as const,
    ),
  )
  .map(([pick, how]) => new UseClaim(pick, how))
const stepsIn = fc
  .tuple(fc.nat(200), fc.constantFrom('cancel' as const, 'cancel' as const, 'delete' as const))
  .map(([pick, how]) => new StepIn(pick, how))
const overdue = fc
  .tuple(
    fc.constantFrom(...ROUTES),
    fc.constantFrom(null, ...ACCOUNTS),
    fc.integer({ min: 0, max: 12_000 }),
    fc.integer({ min: 0, max: 20_000 }),
  )
  .map((fields) => new FailOverdue(...fields))
const crashes = fc.constantFrom(...NODES).map((node) => new Crash(node))
const looks = fc.constant(new Look())
const steps = [
  ...Array.from({ length: 7 }, () => accepts),
  ...Array.from({ length: 14 }, () => claims),
  ...Array.from({ length: 10 }, () => uses),
  stepsIn,
  stepsIn,
  stepsIn,
  overdue,
  crashes,
  crashes,
  crashes,
  looks,
  looks,
]

/** `PARLEY_LONG=1` runs the full number of histories. */
const long = Boolean(process.env.PARLEY_LONG)

export function queueModel(name: string, makePlace: MakePlace): void {
  test(`${name}: the queue keeps its promises through random histories`, async () => {
    const histories = fc.asyncProperty(
      fc.commands(steps, { maxCommands: long ? 100 : 50, size: 'max' }),
      (commands) =>
        inPlace(makePlace, async (place) => {
          const real: Real = { store: await place.open(), place }
          try {
            await addAccounts(real.store, ...ACCOUNTS)
            await fc.asyncModelRun(
              () => ({ model: { queue: new ModelQueue(), claims: [], ended: 0 }, real }),
              commands,
            )
          } finally {
            await real.store.close()
          }
        }),
    )
    await fc.assert(histories, { numRuns: long ? 500 : 15, endOnFailure: !long })
  })
}
