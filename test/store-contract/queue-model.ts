/**
 * Compares the queue with its model in random histories of accept, claim, settle, release, cancel, delete, wait and crash. A
 * few lines in memory give the same guarantees (`model-queue.ts`). A failure prints the seed and the shortest history that
 * shows the difference.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Claim } from '../../src/store/node-store.ts'
import type { Claimed, ClaimFrom } from '../../src/store/store.ts'
import { LONG } from '../support/long-form.ts'
import {
  expiry,
  inPlace,
  type MakePlace,
  now,
  OF_ROUTE,
  type OpenPlace,
  SUSPECTS,
  settlement,
  several,
} from './fixtures.ts'
import { hasEnded, ModelQueue } from './model-queue.ts'
import { accept, addAccounts } from './steps.ts'

interface Model {
  readonly queue: ModelQueue
  readonly claims: (Claim & { readonly node: string })[]
  ended: number
}

type Step = fc.AsyncCommand<Model, OpenPlace>

const NODES = ['node-a', 'node-b']
/** Each node remembers for itself where to continue its walk of a route, so one node makes all walks. */
const WALKER = 'node-a'
const ROUTES = ['', 'x/m']
const ACCOUNTS = ['one', 'two', 'three']
const STEP_MS = 1000

function step<Drawn>(
  drawn: fc.Arbitrary<Drawn>,
  name: string,
  run: (model: Model, real: OpenPlace, drawn: Drawn) => Promise<void>,
  check: (model: Readonly<Model>) => boolean = () => true,
): fc.Arbitrary<Step> {
  return drawn.map((value) => ({
    check,
    run: (model, real) => run(model, real, value),
    toString: () => `${name}(${JSON.stringify(value)})`,
  }))
}

const seldom = fc.constantFrom(false, false, true)

/** With several accounts, the order between accounts matters. */
const accepts = step(
  fc.record({
    count: fc.integer({ min: 1, max: 5 }),
    account: fc.constantFrom(...ACCOUNTS),
    route: fc.constantFrom(...ROUTES),
    handedOff: seldom,
    node: fc.constantFrom(...NODES),
    step: fc.constantFrom(1000, 1000, 250),
  }),
  'accept',
  async ({ queue, claims }, { store }, { count, account, ...over }) => {
    now.ms += STEP_MS
    const { route, step, handedOff, node } = over
    for (const { id, createdAtMs } of await accept(store, several(count, { account }), over)) {
      queue.add({ id, account, route, createdAtMs, step, node: handedOff ? node : null })
      if (handedOff) claims.push({ jobId: id, attempt: 1, node })
    }
  },
)

const walks = fc
  .tuple(fc.constantFrom(...ROUTES), fc.subarray(ACCOUNTS), seldom, seldom)
  .map(([route, some, hasExcepted, keepsPlace]): ClaimFrom => {
    const exceptAccounts = some.length === ACCOUNTS.length ? [] : some
    return { ...OF_ROUTE, route, exceptAccounts, exceptJobs: hasExcepted ? ['some'] : [], keepsPlace }
  })
const lanes = fc
  .tuple(fc.constantFrom(...ROUTES), fc.constantFrom(...ACCOUNTS), seldom)
  .map(([route, account, hasExcepted]): ClaimFrom => {
    return { of: 'account', route, account, exceptJobs: hasExcepted ? ['some'] : [] }
  })
const suspects = fc
  .tuple(fc.constantFrom(1, 1, 1, 2), fc.constantFrom([], [], ROUTES.slice(1)))
  .map(([crashCount, exceptRoutes]): ClaimFrom => ({ ...SUSPECTS, crashCount, exceptRoutes }))

const claims = step(
  fc.tuple(
    fc.constantFrom(...NODES),
    fc.integer({ min: 1, max: 4 }),
    fc.oneof(walks, walks, lanes, suspects),
  ),
  'claim',
  async ({ queue, claims }, { store }, [anyNode, limit, drawn]) => {
    const node = drawn.of === 'suspects' ? anyNode : WALKER
    // A history cannot name existing jobs, so these are some of them.
    const exceptJobs = 'exceptJobs' in drawn && drawn.exceptJobs.length > 0 ? queue.someIds() : []
    const from = 'exceptJobs' in drawn ? { ...drawn, exceptJobs } : drawn
    const claimed = await store.claim(node, limit, now.ms, from)
    const found = queue.claim(node, limit, from, shownOf(claimed), store.shared)
    assert.deepEqual(shownOf(claimed), found)
    for (const { id, attempt } of claimed.jobs) claims.push({ jobId: id, attempt, node })
  },
)

function shownOf({ jobs, mayHaveMore }: Claimed) {
  const shown = jobs.map(({ id, attempt, crashCount, crashedAlone }) => {
    return { id, attempt, crashCount, crashedAlone }
  })
  return { jobs: shown, mayHaveMore }
}

/** Settles or releases any claim so far, current or stale, or records its start. */
const uses = step(
  fc.tuple(fc.nat(200), fc.constantFrom('settle', 'settle', 'release', 'wait', 'start')),
  'use',
  async (model, { store }, [pick, how]) => {
    const claim = model.claims[pick % model.claims.length]
    assert.ok(claim)
    const { queue } = model
    const job = queue.jobs.get(claim.jobId)
    const fresh = job?.status === 'assigned' && job.node === claim.node && job.attempt === claim.attempt
    if (how === 'settle') {
      const settled = await store.settle(settlement(claim, { node: claim.node }))
      assert.equal(settled, fresh ? 'settled' : job ? 'stale' : 'gone')
      if (!fresh) return
      Object.assign(job, { status: 'completed', node: null })
      model.ended += 1
    } else if (how === 'release') {
      await store.release(claim.node, [claim])
      if (fresh) queue.return(job)
    } else if (how === 'wait') {
      const wait = { route: 'x/m', earlierJson: '{"calls":2}', sinceMs: now.ms, waitedMs: 100 }
      await store.releaseWaiting(claim.node, [{ ...claim, ...wait }])
      if (!fresh) return
      Object.assign(job, { route: wait.route, waitsSinceMs: wait.sinceMs, waitedMs: wait.waitedMs, calls: 2 })
      queue.return(job)
    } else {
      await store.recordStarts(claim.node, [claim])
      if (fresh) job.started = job.attempt
    }
  },
  ({ claims }) => claims.length > 0,
)

const operatorSteps = step(
  fc.tuple(fc.nat(200), fc.constantFrom('cancel', 'cancel', 'delete')),
  'operator',
  async (model, { store }, [pick, how]) => {
    const { jobs } = model.queue
    const [id, job] = [...jobs][pick % jobs.size] ?? []
    assert.ok(id !== undefined && job)
    const ended = hasEnded(job)
    if (how === 'delete') {
      assert.equal(await store.deleteJob(id), ended ? 'deleted' : 'not ended')
      if (ended) jobs.delete(id)
      return
    }
    assert.equal(await store.cancelJob(id, now.ms), ended ? 'ended before' : 'cancelled')
    if (ended) return
    const cancelled = []
    for (const node of NODES) cancelled.push(...(await store.takeCancelled(node)))
    if (job.node !== null) assert.deepEqual(cancelled, [{ jobId: id, attempt: job.attempt }])
    Object.assign(job, { status: 'failed', node: null, turn: null })
    model.ended += 1
  },
  ({ queue }) => queue.jobs.size > 0,
)

const overdue = step(
  fc.record({
    route: fc.constantFrom(...ROUTES),
    account: fc.constantFrom(null, ...ACCOUNTS),
    patienceMs: fc.integer({ min: 0, max: 12_000 }),
    unavailableMs: fc.integer({ min: 0, max: 20_000 }),
  }),
  'overdue',
  async (model, { store }, { unavailableMs, ...of }) => {
    const error = { code: 'model_error', message: 'No.' } as const
    const past = { ...of, unavailableSinceMs: now.ms - unavailableMs, error }
    const failed = await store.failOverdue(past, now.ms, 100)
    const expected = model.queue.takeOverdue(past, now.ms)
    const shown = failed.map(({ jobId, usage }) => [jobId, usage.calls])
    assert.deepEqual(shown.sort(), expected.map(({ id, calls }) => [id, calls]).sort())
    model.ended += failed.length
  },
)

const crashes = step(fc.constantFrom(...NODES), 'crash', async ({ queue }, real, survivor) => {
  await real.store.close()
  real.store = await real.place.open()
  assert.equal(await real.store.rescue(survivor, now.ms), queue.crash(survivor))
})

const looks = step(fc.constant(null), 'look', async ({ queue, ended }, { store }) => {
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
  const counted = used.reduce((sum, record) => sum + record.jobs, 0)
  assert.equal(counted, ended)
  for (const [id, job] of jobs.slice(-5)) {
    const views = await Promise.all(ACCOUNTS.map((account) => store.read(account, id, expiry())))
    const statuses = views.flatMap((view) => view?.status ?? [])
    assert.deepEqual(statuses, [job.status])
  }
})

/** A kind of step that is listed more often is taken more often. Crashes are rare, because opening a store again is slow. */
const steps = [
  ...Array<typeof accepts>(7).fill(accepts),
  ...Array<typeof claims>(14).fill(claims),
  ...Array<typeof uses>(10).fill(uses),
  ...[operatorSteps, operatorSteps, operatorSteps, overdue, crashes, crashes, crashes, looks, looks],
]

export function queueModel(name: string, makePlace: MakePlace): void {
  test(`${name}: the queue keeps its promises through random histories`, async () => {
    const commands = fc.commands(steps, { maxCommands: LONG ? 100 : 50, size: 'max' })
    const histories = fc.asyncProperty(commands, (history) =>
      inPlace(makePlace, async (real) => {
        await addAccounts(real.store, ...ACCOUNTS)
        const model: Model = { queue: new ModelQueue(), claims: [], ended: 0 }
        await fc.asyncModelRun(() => ({ model, real }), history)
      }),
    )
    await fc.assert(histories, { numRuns: LONG ? 500 : 15, endOnFailure: !LONG })
  })
}
