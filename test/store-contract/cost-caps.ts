/** What every store guarantees about jobs that wait for the budget of their account. */
import assert from 'node:assert/strict'
import { BUDGET_ROUTE, type BudgetedJob } from '../../src/store/cost-cap-store.ts'
import type { Store } from '../../src/store/store.ts'
import {
  acceptance,
  addAccounts,
  claimNext,
  type JobFields,
  newJob,
  now,
  type On,
  settlement,
  USAGE,
} from './fixtures.ts'

const ROUTE = 'live/m'

export function budgetTests(on: On): void {
  const wait = async (store: Store, fields: JobFields = {}) => {
    const job = newJob({ reserved: 0, ...fields })
    const route = job.priority === undefined ? BUDGET_ROUTE : `${BUDGET_ROUTE} !${job.priority}`
    await store.accept(acceptance([job], { route }))
    return job.id
  }
  const budgeted = (jobId: string, reserved: number): BudgetedJob => ({
    jobId,
    reserved,
    route: ROUTE,
    step: 1000,
  })
  const queue = (store: Store, costCap: number | null, ...jobs: BudgetedJob[]) =>
    store.queueWithinBudget({ account: 'acme', costCap, jobs, earlierJson: '{"calls":0}', nowMs: now.ms })

  on('finds the jobs that wait, by account, priority and order', async (store) => {
    await addAccounts(store, 'b', 'c')
    assert.deepEqual(await store.accountsOverBudget(), [])
    const low = await wait(store, { priority: 'low' })
    const first = await wait(store)
    const second = await wait(store, { inputTokens: 7, model: 'gpt-5' })
    const high = await wait(store, { priority: 'high' })
    await wait(store, { account: 'c' })
    await store.accept(acceptance([newJob({ account: 'b' })], { route: ROUTE }))
    assert.deepEqual((await store.accountsOverBudget()).toSorted(), ['acme', 'c'])
    const found = await store.jobsOverBudget('acme', 10)
    assert.deepEqual(
      found.map(({ id }) => id),
      [high, first, second, low],
    )
    const { model, tier, inputTokens, priority } = found[2] ?? {}
    assert.deepEqual([model, tier, inputTokens, priority], ['gpt-5', 'user_max', 7, null])
    assert.equal(found[0]?.priority, 'high')
    for (const limit of [1, 2, 3]) assert.equal((await store.jobsOverBudget('acme', limit)).length, limit)
    assert.deepEqual(await store.jobsOverBudget('b', 10), [])
    assert.deepEqual(
      (await store.areOverBudget([first, high, newJob().id])).toSorted(),
      [first, high].toSorted(),
    )
  })

  on('queues them up to the first that the cap has no room for, each once', async (store) => {
    const open = newJob({ reserved: 30 })
    await store.accept(acceptance([open], { handedOff: true }))
    await store.settle(settlement({ jobId: open.id, attempt: 1 }, { usage: { ...USAGE, cost: 20 } }))
    await store.accept(acceptance([newJob({ reserved: 10 })], { handedOff: true }))
    const ids = [await wait(store), await wait(store), await wait(store)]
    const jobs = ids.map((id, at) => budgeted(id, [50, 25, 20][at] ?? 0))
    assert.equal((await store.quotaUse('acme')).reserved, 10)
    assert.deepEqual(await queue(store, 100, ...jobs), { routes: [ROUTE], isCapReached: true })
    assert.equal((await store.quotaUse('acme')).reserved, 60)
    assert.deepEqual(await store.areOverBudget(ids), ids.slice(1))
    assert.deepEqual(await queue(store, 100, ...jobs), { routes: [], isCapReached: true })
    // The last would fit.
    assert.deepEqual(await queue(store, 105, ...jobs), { routes: [ROUTE], isCapReached: true })
    assert.deepEqual(await queue(store, null, ...jobs), { routes: [ROUTE], isCapReached: false })
    assert.equal((await store.quotaUse('acme')).reserved, 105)
    assert.deepEqual(await queue(store, 0, ...jobs), { routes: [], isCapReached: false })
    assert.deepEqual(await store.jobsOverBudget('acme', 10), [])
    assert.deepEqual((await store.queued()).routes, [ROUTE])
    const claimed = await claimNext(store, 'node-a', 10, now.ms, ROUTE)
    assert.deepEqual(
      claimed.map(({ id, earlierJson, attempt }) => [id, earlierJson, attempt]),
      ids.map((id) => [id, '{"calls":0}', 1]),
    )
    for (const { id } of claimed) {
      const end = settlement({ jobId: id, attempt: 1 }, { node: 'node-a', usage: { ...USAGE, cost: 1 } })
      assert.equal(await store.settle(end), 'settled')
    }
    assert.equal((await store.quotaUse('acme')).reserved, 10)
  })

  on('frees nothing when a job ends that waits', async (store) => {
    await store.accept(acceptance([newJob({ reserved: 10 })], { handedOff: true }))
    const cancelled = await wait(store)
    const late = await wait(store, { deadlineMs: now.ms })
    assert.equal(await store.cancelJob(cancelled, now.ms), 'cancelled')
    const error = { code: 'deadline_exceeded', message: 'Too late.' } as const
    const [failed] = await store.failOverdue({ route: null, error }, now.ms, 10)
    assert.deepEqual([failed?.jobId, failed?.usage.cost], [late, 0])
    assert.deepEqual(await queue(store, 1000, budgeted(cancelled, 5), budgeted(late, 5)), {
      routes: [],
      isCapReached: false,
    })
    assert.equal((await store.quotaUse('acme')).reserved, 10)
    const [sum] = await store.listUsage({ limit: 1 })
    assert.deepEqual([sum?.jobs, sum?.cost], [2, 0])
  })

  on('counts the wait for model servers from when the job was queued', async (store) => {
    const id = await wait(store)
    const outageMs = now.ms
    now.ms += 10_000
    await queue(store, null, budgeted(id, 5))
    const fail = async () => {
      const error = { code: 'model_error', message: 'No.' } as const
      const overdue = { route: ROUTE, account: null, unavailableSinceMs: outageMs, patienceMs: 5000, error }
      return (await store.failOverdue(overdue, now.ms, 10)).map(({ jobId }) => jobId)
    }
    now.ms += 4999
    assert.deepEqual(await fail(), [])
    now.ms += 1
    assert.deepEqual(await fail(), [id])
  })

  on('shares the budget with jobs that are accepted at the same time', async (store) => {
    const ids: string[] = []
    for (let at = 0; at < 40; at++) ids.push(await wait(store))
    const moves = ids.map((id) => queue(store, 100, budgeted(id, 5)))
    const accepts = Array.from({ length: 40 }, () =>
      store.accept({ ...acceptance([newJob({ reserved: 5 })], { handedOff: true }), costCap: 100 }),
    )
    const queued = (await Promise.all(moves)).filter(({ routes }) => routes.length > 0).length
    const accepted = (await Promise.all(accepts)).filter(({ kind }) => kind === 'accepted').length
    assert.equal(queued + accepted, 20)
    assert.equal((await store.quotaUse('acme')).reserved, 100)
  })
}
