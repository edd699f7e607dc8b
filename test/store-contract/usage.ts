/**
 * Tests what every store guarantees about usage, caps in money, and jobs that wait for the budget of their account. In usage,
 * each ended job counts once, in the month in which it ended.
 */
import assert from 'node:assert/strict'
import type { Settlement, Store } from '../../src/store/store.ts'
import { BUDGET_ROUTE, type BudgetedJob } from '../../src/store/usage-store.ts'
import {
  acceptance,
  DAY_MS,
  expiry,
  ids,
  type JobFields,
  jobIds,
  newJob,
  now,
  type On,
  several,
  USAGE,
} from './fixtures.ts'
import { accept, addAccounts, addEnded, addHeld, addQueued, claimNext, settle } from './steps.ts'

/** `usage` adds to the usual usage of the job. */
function ended(store: Store, usage: object = {}, fields: JobFields = {}, over: Partial<Settlement> = {}) {
  const { model } = fields
  return addEnded(store, fields, { usage: { ...USAGE, ...usage }, ...(model && { model }), ...over })
}

const reservedOf = async (store: Store, account = 'acme') => (await store.quotaUse(account)).reserved ?? 0

export function usageTests(on: On): void {
  const ONE = {
    ...{ account: 'acme', month: '2026-01', model: 'gpt-5-mini', jobs: 1, failedJobs: 0, cacheHits: 0 },
    ...{ calls: 1, inputTokens: 3, outputTokens: 5 },
  }

  on('sums what was settled by account, month and model', async (store) => {
    await ended(store)
    await ended(store, { input_tokens: 2 ** 40, calls: 3 })
    await ended(store, { input_tokens: 0, output_tokens: 0, calls: 0, cache_hit: true })
    const error = { code: 'model_error', message: 'No.' } as const
    await ended(store, {}, {}, { outcome: { status: 'failed', error } })
    await ended(store, {}, { model: 'gpt-5' })
    await ended(store, {}, { account: 'other' })
    const counts = { jobs: 4, failedJobs: 1, cacheHits: 1, calls: 5 }
    assert.deepEqual(await store.listUsage({ limit: 10 }), [
      { ...ONE, model: 'gpt-5' },
      { ...ONE, ...counts, inputTokens: 2 ** 40 + 6, outputTokens: 15 },
      { ...ONE, account: 'other' },
    ])
  })

  on('sums what jobs cost, beside those that have no price', async (store) => {
    await ended(store)
    await ended(store, { cost: 0 })
    const [free] = await store.listUsage({ limit: 10 })
    assert.equal(free?.cost, 0)
    await Promise.all([1, 2 ** 40].map((cost) => ended(store, { cost })))
    await ended(store)
    await ended(store, { cost: Number.MAX_SAFE_INTEGER }, { model: 'gpt-5' })
    const sums = await store.listUsage({ limit: 10 })
    assert.deepEqual(
      sums.map(({ model, jobs, cost }) => [model, jobs, cost]),
      [
        ['gpt-5', 1, Number.MAX_SAFE_INTEGER],
        ['gpt-5-mini', 5, 2 ** 40 + 1],
      ],
    )
  })

  on('counts a job once, whoever else settles it', async (store) => {
    const job = await ended(store)
    for (const attempt of [1, 2]) assert.equal(await settle(store, job, { attempt }), 'stale')
    assert.deepEqual(await store.listUsage({ limit: 10 }), [ONE])
  })

  on('counts jobs that are settled at the same time', async (store) => {
    const accounts = ['a', 'b', 'c']
    await addAccounts(store, ...accounts)
    const models = ['gpt-5', 'gpt-5-mini']
    const all = Array.from({ length: 300 }, (_, at) => {
      return { account: accounts[at % 3] ?? '', model: models[at % 2] ?? '' }
    })
    await Promise.all(all.map((fields) => ended(store, {}, fields)))
    const sums = await store.listUsage({ limit: 10 })
    assert.deepEqual(
      sums.map(({ account, model, jobs, outputTokens }) => [account, model, jobs, outputTokens]),
      accounts.flatMap((account) => models.map((model) => [account, model, 50, 250])),
    )
  })

  on('keeps counting whatever a model server claims', async (store) => {
    const usage = { ...USAGE, input_tokens: Number.MAX_SAFE_INTEGER, output_tokens: Number.MAX_SAFE_INTEGER }
    // The sum exceeds 64 bits, but no settlement may fail because of that.
    const jobs = await accept(store, several(1100), { handedOff: true })
    const ends = await Promise.all(jobs.map((job) => settle(store, job, { usage })))
    assert.deepEqual(new Set(ends), new Set(['settled']))
    await ended(store)
    await store.expire(expiry())
    const [sum] = await store.listUsage({ limit: 10 })
    assert.equal(sum?.jobs, 1101)
    assert.ok((sum?.inputTokens ?? 0) >= Number.MAX_SAFE_INTEGER)
    assert.ok((await store.used('acme', '2026-01')).tokens >= Number.MAX_SAFE_INTEGER)
  })

  on('is found newest month first, by account and by month, a page at a time', async (store) => {
    await addAccounts(store, 'b', 'c')
    await ended(store)
    now.ms = Date.UTC(2026, 1, 1) - 1
    await ended(store, {}, { account: 'b' })
    now.ms += 1
    await ended(store, {}, { account: 'b' })
    await ended(store, {}, { account: 'c', model: 'gpt-5' })
    const found = async (over: Partial<Parameters<Store['listUsage']>[0]>) =>
      (await store.listUsage({ limit: 10, ...over })).map(({ account, month }) => `${account} ${month}`)
    assert.deepEqual(await found({}), ['b 2026-02', 'c 2026-02', 'acme 2026-01', 'b 2026-01'])
    assert.deepEqual(await found({ account: 'b' }), ['b 2026-02', 'b 2026-01'])
    assert.deepEqual(await found({ month: '2026-01' }), ['acme 2026-01', 'b 2026-01'])
    assert.deepEqual(await found({ account: 'b', month: '2026-02' }), ['b 2026-02'])
    assert.deepEqual(await found({ limit: 2 }), ['b 2026-02', 'c 2026-02'])
    const after = { account: 'c', month: '2026-02', model: 'gpt-5' }
    assert.deepEqual(await found({ after, limit: 1 }), ['acme 2026-01'])
    assert.deepEqual(await found({ month: '2025-12' }), [])
  })

  on('returns what counts against caps: what ended in the month, and what is open', async (store) => {
    for (const fields of [{}, { model: 'gpt-5' }, { account: 'other' }]) await ended(store, {}, fields)
    for (const fields of [{}, {}, { account: 'other' }]) await addQueued(store, fields)
    await addHeld(store)
    assert.deepEqual(await store.used('acme', '2026-01'), { jobs: 2, openJobs: 3, tokens: 16 })
    assert.deepEqual(await store.used('acme', '2026-02'), { jobs: 0, openJobs: 3, tokens: 0 })
    assert.deepEqual(await store.used('nobody', '2026-01'), { jobs: 0, openJobs: 0, tokens: 0 })
  })

  on('outlives what it counted', async (store) => {
    await ended(store)
    now.ms += 30 * DAY_MS
    while (await store.expire({ nowMs: now.ms, retentionMs: 1000 }));
    assert.deepEqual(await store.listUsage({ limit: 10 }), [ONE])
  })
}

export function costCapTests(on: On): void {
  on(
    'reserves what jobs may cost for as long as they are open, and counts what they cost then',
    async (store) => {
      const sums = async () => {
        const [usage] = await store.listUsage({ account: 'acme', limit: 1 })
        return [await reservedOf(store), usage?.cost]
      }
      const one = await addHeld(store, { reserved: 100 })
      const two = await addHeld(store, { reserved: 2 ** 40, inputTokens: 3 })
      const three = await addHeld(store)
      const four = await addQueued(store, { reserved: 7 })
      assert.equal(await reservedOf(store), 2 ** 40 + 107)
      await settle(store, one, { usage: { ...USAGE, cost: 5 } })
      assert.deepEqual(await sums(), [2 ** 40 + 7, 5])
      // A node holds the job, so the call in progress counts.
      const inputPrices = new Map([[two.model, 10]])
      const cancel = { account: 'acme', nowMs: now.ms, inputTokens: null, inputPrices }
      assert.equal(await store.cancelOwnJob({ ...cancel, jobId: two.id }), 'cancelled')
      assert.deepEqual(await sums(), [7, 35])
      assert.equal(await store.cancelOwnJob({ ...cancel, jobId: four.id }), 'cancelled')
      assert.equal(await store.cancelJob(three.id, now.ms), 'cancelled')
      assert.deepEqual(await sums(), [0, 35])
      const costOf = async (jobId: string) =>
        JSON.parse((await store.readEnded([jobId]))[0]?.usageJson ?? 'null').cost
      const costs = await Promise.all(ids([one, two, three, four]).map(costOf))
      assert.deepEqual(costs, [5, 30, undefined, 0])
    },
  )

  on('accepts no job that would exceed a cap in money, and all that do not', async (store) => {
    await ended(store, { cost: 10 })
    const create = async (costCap: number, jobs: readonly JobFields[], over = {}) => {
      const accepted = await store.accept({ ...acceptance(jobs.map(newJob)), costCap, ...over })
      return accepted.kind === 'over cost cap' ? `over cost cap at ${accepted.used}` : accepted.kind
    }
    assert.equal(await create(100, [{ reserved: 91 }]), 'over cost cap at 10')
    assert.equal(await create(100, [{ reserved: 90 }]), 'accepted')
    assert.equal(await create(100, [{ reserved: 1 }]), 'over cost cap at 100')
    assert.equal(await create(100, [{ reserved: 0 }]), 'accepted')
    assert.equal(await create(5, [{}]), 'accepted')
    assert.equal(await create(101, [{ reserved: 1 }]), 'accepted')
    // A batch is accepted as a whole or not at all, and other accounts are unaffected.
    assert.equal(await create(102, [{ reserved: 1 }, { reserved: 1 }]), 'over cost cap at 101')
    assert.equal((await store.depth()).waiting, 4)
    assert.equal(await create(50, [{ account: 'other', reserved: 50 }]), 'accepted')
    // In another month, only open jobs count.
    const nextMonth = { nowMs: now.ms + 31 * DAY_MS }
    assert.equal(await create(100, [{ reserved: 10 }], nextMonth), 'over cost cap at 91')
    assert.equal(await create(100, [{ reserved: 9 }], nextMonth), 'accepted')
  })

  on(
    'keeps a cap in money exactly, however many jobs are accepted and settled at the same time',
    async (store) => {
      const create = async (reserved: number, over = {}) => {
        const jobs = several(60, { reserved })
        const accepted = await Promise.all(
          jobs.map((job) => store.accept({ ...acceptance([job], over), costCap: 210 })),
        )
        return jobs.filter((_, at) => accepted[at]?.kind === 'accepted')
      }
      const first = await create(7, { handedOff: true })
      assert.equal(first.length, 30)
      const ends = first.map((job) => settle(store, job, { usage: { ...USAGE, cost: 2 } }))
      const more = create(3, { handedOff: true })
      await Promise.all(ends)
      const added = 3 * (await more).length
      assert.ok(added <= 150)
      assert.equal(3 * (await create(3)).length + added, 150)
    },
  )

  on('remembers no key of a request over a cap in money, and repeats an accepted one', async (store) => {
    const ask = async (costCap: number, key = 'key') => {
      const idempotency = { key, fingerprint: 'a', untilMs: now.ms + 1000 }
      const job = newJob({ reserved: 10 })
      return (await store.accept({ ...acceptance([job]), idempotency, costCap })).kind
    }
    assert.equal(await ask(9), 'over cost cap')
    assert.equal(await ask(10), 'accepted')
    assert.equal(await ask(10), 'repeated')
    assert.equal(await ask(10, 'another'), 'over cost cap')
    const equal = await Promise.all([ask(20, 'same'), ask(20, 'same'), ask(20, 'same')])
    assert.deepEqual(equal.toSorted(), ['accepted', 'repeated', 'repeated'])
  })
}

const ROUTE = 'live/m'

export function budgetTests(on: On): void {
  const wait = async (store: Store, fields: JobFields = {}) => {
    const { priority } = fields
    const route = priority === undefined ? BUDGET_ROUTE : `${BUDGET_ROUTE} !${priority}`
    const [job] = await accept(store, [newJob({ reserved: 0, ...fields })], { route })
    return job.id
  }
  const budgeted = (jobId: string, reserved: number): BudgetedJob => {
    return { jobId, reserved, route: ROUTE, step: 1000 }
  }
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
    await accept(store, [newJob({ account: 'b' })], { route: ROUTE })
    assert.deepEqual((await store.accountsOverBudget()).toSorted(), ['acme', 'c'])
    const found = await store.jobsOverBudget('acme', 10)
    assert.deepEqual(ids(found), [high, first, second, low])
    const { model, tier, inputTokens, priority } = found[2] ?? {}
    assert.deepEqual([model, tier, inputTokens, priority], ['gpt-5', 'user_max', 7, null])
    assert.equal(found[0]?.priority, 'high')
    for (const limit of [1, 2, 3]) assert.equal((await store.jobsOverBudget('acme', limit)).length, limit)
    assert.deepEqual(await store.jobsOverBudget('b', 10), [])
    const over = await store.areOverBudget([first, high, newJob().id])
    assert.deepEqual(over.toSorted(), [first, high].toSorted())
  })

  on('queues them up to the first that the cap has no room for, each once', async (store) => {
    await ended(store, { cost: 20 }, { reserved: 30 })
    await addHeld(store, { reserved: 10 })
    const waiting = [await wait(store), await wait(store), await wait(store)]
    const jobs = waiting.map((id, at) => budgeted(id, [50, 25, 20][at] ?? 0))
    assert.equal(await reservedOf(store), 10)
    assert.deepEqual(await queue(store, 100, ...jobs), { routes: [ROUTE], isCapReached: true })
    assert.equal(await reservedOf(store), 60)
    assert.deepEqual(await store.areOverBudget(waiting), waiting.slice(1))
    assert.deepEqual(await queue(store, 100, ...jobs), { routes: [], isCapReached: true })
    assert.deepEqual(await queue(store, 105, ...jobs), { routes: [ROUTE], isCapReached: true })
    assert.deepEqual(await queue(store, null, ...jobs), { routes: [ROUTE], isCapReached: false })
    assert.equal(await reservedOf(store), 105)
    assert.deepEqual(await queue(store, 0, ...jobs), { routes: [], isCapReached: false })
    assert.deepEqual(await store.jobsOverBudget('acme', 10), [])
    assert.deepEqual((await store.queued()).routes, [ROUTE])
    const claimed = await claimNext(store, 'node-a', 10, now.ms, ROUTE)
    assert.deepEqual(
      claimed.map(({ id, earlierJson, attempt }) => [id, earlierJson, attempt]),
      waiting.map((id) => [id, '{"calls":0}', 1]),
    )
    for (const job of claimed)
      assert.equal(await settle(store, job, { usage: { ...USAGE, cost: 1 } }), 'settled')
    assert.equal(await reservedOf(store), 10)
  })

  on('frees nothing when a job ends that waits', async (store) => {
    await addHeld(store, { reserved: 10 })
    const cancelled = await wait(store)
    const late = await wait(store, { deadlineMs: now.ms })
    assert.equal(await store.cancelJob(cancelled, now.ms), 'cancelled')
    const error = { code: 'deadline_exceeded', message: 'Too late.' } as const
    const [failed] = await store.failOverdue({ route: null, error }, now.ms, 10)
    assert.deepEqual([failed?.jobId, failed?.usage.cost], [late, 0])
    const queued = await queue(store, 1000, budgeted(cancelled, 5), budgeted(late, 5))
    assert.deepEqual(queued, { routes: [], isCapReached: false })
    assert.equal(await reservedOf(store), 10)
    const [sum] = await store.listUsage({ limit: 1 })
    assert.deepEqual([sum?.jobs, sum?.cost], [2, 0])
  })

  on('counts the wait for model servers from when the job was queued', async (store) => {
    const id = await wait(store)
    const unavailableSinceMs = now.ms
    now.ms += 10_000
    await queue(store, null, budgeted(id, 5))
    const error = { code: 'model_error', message: 'No.' } as const
    const overdue = { route: ROUTE, account: null, unavailableSinceMs, patienceMs: 5000, error }
    const fail = async () => jobIds(await store.failOverdue(overdue, now.ms, 10))
    now.ms += 4999
    assert.deepEqual(await fail(), [])
    now.ms += 1
    assert.deepEqual(await fail(), [id])
  })

  on('shares the budget with jobs that are accepted at the same time', async (store) => {
    const waiting: string[] = []
    for (let at = 0; at < 40; at++) waiting.push(await wait(store))
    const moves = waiting.map((id) => queue(store, 100, budgeted(id, 5)))
    const accepts = several(40, { reserved: 5 }).map((job) =>
      store.accept({ ...acceptance([job], { handedOff: true }), costCap: 100 }),
    )
    const queued = (await Promise.all(moves)).filter(({ routes }) => routes.length > 0).length
    const accepted = (await Promise.all(accepts)).filter(({ kind }) => kind === 'accepted').length
    assert.equal(queued + accepted, 20)
    assert.equal(await reservedOf(store), 100)
  })
}
