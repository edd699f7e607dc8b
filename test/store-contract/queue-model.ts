/**
 * The queue against its model: random histories of accept, claim, settle, release, cancel, delete and crash. Each step is
 * compared with a few lines that implement the same promises in memory. A failure prints the seed and the shortest history
 * that shows it.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Claim } from '../../src/store/node-store.ts'
import type { Store } from '../../src/store/store.ts'
import {
  acceptance,
  addAccounts,
  COMPLETED,
  inPlace,
  type MakePlace,
  newJob,
  type Place,
  START_MS,
  settlement,
} from './fixtures.ts'

type Held = Claim & { readonly node: string }

interface ModelJob {
  status: 'pending' | 'assigned' | 'completed' | 'failed'
  node: string | null
  attempt: number
  crashCount: number
}

interface Model {
  readonly jobs: Map<string, ModelJob>
  /** Every claim so far, including stale ones. */
  readonly claims: Held[]
  /** Ended jobs, including deleted ones. */
  ended: number
}

const hasEnded = ({ status }: ModelJob) => status === 'completed' || status === 'failed'

interface Real {
  store: Store
  readonly place: Place
}

type Step = fc.AsyncCommand<Model, Real>

const NODES = ['node-a', 'node-b']

/** There are two accounts, so that the order between accounts matters. */
class Accept implements Step {
  readonly count: number
  readonly account: string
  readonly handedOff: boolean
  readonly node: string
  constructor(count: number, account: string, handedOff: boolean, node: string) {
    this.count = count
    this.account = account
    this.handedOff = handedOff
    this.node = node
  }
  check = () => true
  async run(model: Model, real: Real) {
    const jobs = Array.from({ length: this.count }, () => newJob({ account: this.account }))
    const { node, handedOff } = this
    assert.deepEqual(await real.store.accept(acceptance(jobs, { node, handedOff })), { kind: 'accepted' })
    for (const { id } of jobs) {
      const attempt = handedOff ? 1 : 0
      model.jobs.set(id, {
        status: handedOff ? 'assigned' : 'pending',
        node: handedOff ? node : null,
        attempt,
        crashCount: 0,
      })
      if (handedOff) model.claims.push({ jobId: id, attempt, node })
    }
  }
  toString = () => `accept(${this.count}, ${this.account}, ${this.handedOff ? this.node : 'queued'})`
}

class ClaimSome implements Step {
  readonly node: string
  readonly limit: number
  /** An account that the claim skips; null for a claim in fair order. */
  readonly except: string | null
  constructor(node: string, limit: number, except: string | null) {
    this.node = node
    this.limit = limit
    this.except = except
  }
  check = () => true
  async run(model: Model, real: Real) {
    const { node, limit, except } = this
    const waiting = [...model.jobs.values()].filter((job) => !hasEnded(job) && job.node === null)
    const bounds = except === null ? {} : { exceptOf: [except] }
    const claimed = (await real.store.claim(node, limit, START_MS, bounds)).jobs
    if (except === null) assert.equal(claimed.length, Math.min(limit, waiting.length))
    else {
      const accounts = claimed.map(({ account }) => account)
      assert.ok(!accounts.includes(except) && new Set(accounts).size === accounts.length, `${accounts}`)
    }
    for (const { id, attempt, crashCount } of claimed) {
      const job = model.jobs.get(id)
      assert.ok(job && job.node === null && !hasEnded(job), 'a job is claimed once')
      assert.deepEqual([attempt, crashCount], [job.attempt + 1, job.crashCount])
      Object.assign(job, { status: 'assigned', node: this.node, attempt })
      model.claims.push({ jobId: id, attempt, node: this.node })
    }
  }
  toString = () => `claim(${this.node}, ${this.limit}${this.except === null ? '' : `, not ${this.except}`})`
}

/** Settles or releases any claim so far, current or stale. */
class UseClaim implements Step {
  readonly pick: number
  readonly how: 'settle' | 'release'
  constructor(pick: number, how: 'settle' | 'release') {
    this.pick = pick
    this.how = how
  }
  check = ({ claims }: Readonly<Model>) => claims.length > 0
  async run(model: Model, real: Real) {
    const claim = model.claims[this.pick % model.claims.length]
    assert.ok(claim)
    const job = model.jobs.get(claim.jobId)
    const fresh = job?.status === 'assigned' && job.node === claim.node && job.attempt === claim.attempt
    if (this.how === 'settle') {
      const settled = await real.store.settle(settlement(claim, { node: claim.node, outcome: COMPLETED }))
      assert.equal(settled, fresh ? 'settled' : job ? 'stale' : 'gone')
      if (!fresh) return
      Object.assign(job, { status: 'completed', node: null })
      model.ended += 1
    } else {
      await real.store.release(claim.node, [claim])
      if (fresh) job.node = null
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
  check = ({ jobs }: Readonly<Model>) => jobs.size > 0
  async run(model: Model, real: Real) {
    const [id, job] = [...model.jobs][this.pick % model.jobs.size] ?? []
    assert.ok(id !== undefined && job)
    const ended = hasEnded(job)
    if (this.how === 'delete') {
      assert.equal(await real.store.deleteJob(id), ended ? 'deleted' : 'not ended')
      if (ended) model.jobs.delete(id)
      return
    }
    assert.equal(await real.store.cancelJob(id, START_MS), ended ? 'ended before' : 'cancelled')
    if (ended) return
    const cancelled = []
    for (const node of NODES) cancelled.push(...(await real.store.takeCancelled(node)))
    if (job.node !== null) assert.deepEqual(cancelled, [{ jobId: id, attempt: job.attempt }])
    Object.assign(job, { status: 'failed', node: null })
    model.ended += 1
  }
  toString = () => `${this.how}(${this.pick})`
}

/** All processes crash; a new one opens the store and takes back their jobs. */
class Crash implements Step {
  readonly survivor: string
  constructor(survivor: string) {
    this.survivor = survivor
  }
  check = () => true
  async run(model: Model, real: Real) {
    await real.store.close()
    real.store = await real.place.open()
    const lost = [...model.jobs.values()].filter(({ node }) => node !== null && node !== this.survivor)
    assert.equal(await real.store.rescue(this.survivor, START_MS), lost.length)
    for (const job of lost) Object.assign(job, { node: null, crashCount: job.crashCount + 1 })
  }
  toString = () => `crash(${this.survivor} goes on)`
}

class Look implements Step {
  check = () => true
  async run(model: Model, real: Real) {
    const jobs = [...model.jobs]
    const { waiting, assigned } = await real.store.depth()
    assert.equal(waiting, jobs.filter(([, job]) => job.node === null && !hasEnded(job)).length)
    assert.equal(assigned, jobs.filter(([, job]) => job.node !== null).length)
    const used = await real.store.listUsage({ limit: 10 })
    assert.equal(
      used.reduce((sum, record) => sum + record.jobs, 0),
      model.ended,
    )
    const at = { nowMs: START_MS, retentionMs: 1000 }
    for (const [id, job] of jobs.slice(-5)) {
      const views = await Promise.all(['one', 'two'].map((account) => real.store.read(account, id, at)))
      const statuses = views.flatMap((view) => view?.status ?? [])
      assert.deepEqual(statuses, [job.status])
    }
  }
  toString = () => 'look'
}

/** The more often a kind of step is listed, the more often it is taken: opening a store again is slow. */
const accepts = fc
  .tuple(
    fc.integer({ min: 1, max: 5 }),
    fc.constantFrom('one', 'two'),
    fc.boolean(),
    fc.constantFrom(...NODES),
  )
  .map(([count, account, handedOff, node]) => new Accept(count, account, handedOff, node))
const claims = fc
  .tuple(
    fc.constantFrom(...NODES),
    fc.integer({ min: 1, max: 4 }),
    fc.constantFrom(null, null, 'one', 'none'),
  )
  .map(([node, limit, except]) => new ClaimSome(node, limit, except))
const uses = fc
  .tuple(fc.nat(200), fc.constantFrom('settle' as const, 'settle' as const, 'release' as const))
  .map(([pick, how]) => new UseClaim(pick, how))
const stepsIn = fc
  .tuple(fc.nat(200), fc.constantFrom('cancel' as const, 'cancel' as const, 'delete' as const))
  .map(([pick, how]) => new StepIn(pick, how))
const crashes = fc.constantFrom(...NODES).map((node) => new Crash(node))
const looks = fc.constant(new Look())
const steps = [
  accepts,
  accepts,
  accepts,
  claims,
  claims,
  claims,
  claims,
  uses,
  uses,
  uses,
  uses,
  stepsIn,
  stepsIn,
  crashes,
  looks,
]

/** `PARLEY_LONG=1` runs the full number of histories. */
const long = Boolean(process.env.PARLEY_LONG)

export function queueModel(name: string, makePlace: MakePlace): void {
  test(`${name}: the queue keeps its promises through random histories`, async () => {
    const histories = fc.asyncProperty(
      fc.commands(steps, { maxCommands: long ? 100 : 40, size: 'max' }),
      (commands) =>
        inPlace(makePlace, async (place) => {
          const real: Real = { store: await place.open(), place }
          try {
            await addAccounts(real.store, 'one', 'two')
            await fc.asyncModelRun(
              () => ({ model: { jobs: new Map(), claims: [], ended: 0 }, real }),
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
