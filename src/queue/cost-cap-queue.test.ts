import assert from 'node:assert/strict'
import test from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { Prices } from '../job/cost.ts'
import { Tiers } from '../job/tier.ts'
import type { BudgetedJobs } from '../store/usage-store.ts'
import { CostCapQueue } from './cost-cap-queue.ts'

function start(accounts: string[], known: { prices: Prices | null } | null = null) {
  const clock = new FakeClock()
  const calls: string[] = []
  const job = { model: 'm', tier: 'gold', inputTokens: 1, responseFormatJson: '{"format":"text"}' }
  const jobs = [{ ...job, id: 'one', priority: null as string | null }]
  const budgeted: BudgetedJobs[] = []
  const queue = new CostCapQueue({
    store: {
      accountsOverBudget: async () => {
        calls.push('accounts')
        return accounts
      },
      jobsOverBudget: async (account) => {
        calls.push(account)
        return jobs
      },
      queueWithinBudget: async (one) => {
        budgeted.push(one)
        return { routes: [], isCapReached: true }
      },
      areOverBudget: async () => [],
      findOwner: async () => ({
        tier: 'gold',
        suspendedAtMs: null,
        caps: { monthlyJobs: null, monthlyTokens: null, openJobs: null, storedBytes: null },
      }),
    },
    clock,
    tiers: new Tiers([
      { ...new Tiers([]).of(''), name: 'gold', models: new Set(['m']), weight: 4, maxMonthlyCost: 9 },
    ]),
    prices: known && (() => known.prices),
    routeOf: () => 'a/m',
    onQueued: () => {},
    onError: (error) => assert.fail(String(error)),
  })
  const taken = async () => {
    for (let turns = 0; turns < 20; turns++) await turn()
    return calls.splice(0)
  }
  return { clock, queue, taken, accounts, jobs, budgeted }
}

test('it looks every second while jobs wait, when one ends, and not after it was stopped', async () => {
  const { clock, queue, taken, accounts } = start(['acme'])
  assert.deepEqual(await taken(), [])
  queue.look()
  assert.deepEqual(await taken(), ['accounts', 'acme'])
  assert.equal(queue.has('acme'), true)
  clock.advance(999)
  assert.deepEqual(await taken(), [])
  clock.advance(1)
  assert.deepEqual(await taken(), ['accounts', 'acme'])
  queue.jobEnded('other')
  queue.jobEnded('acme')
  queue.added('new')
  assert.deepEqual(await taken(), ['acme', 'new'])
  accounts.splice(0)
  clock.advance(1000)
  assert.deepEqual(await taken(), ['accounts'])
  assert.equal(queue.has('acme'), false)
  clock.advance(5000)
  assert.deepEqual(await taken(), [])
  accounts.push('acme')
  queue.look()
  await queue.stop()
  await taken()
  queue.look()
  queue.added('acme')
  clock.advance(5000)
  assert.deepEqual(await taken(), [])
})

test('a look takes up a bounded number of accounts, and reads which ones wait once a round', async () => {
  const names = Array.from({ length: 250 }, (_, n) => `account ${n}`)
  const { clock, queue, taken } = start(names)
  queue.look()
  for (let read = 0; read < 251; ) read += (await taken()).length
  const looks: string[][] = []
  for (let look = 0; look < 3; look++) {
    clock.advance(1000)
    const calls: string[] = []
    for (let turns = 0; turns < 50; turns++) calls.push(...(await taken()))
    looks.push(calls)
  }
  assert.deepEqual(
    looks.map(({ length }) => length),
    [101, 100, 50],
  )
  assert.deepEqual(new Set(looks.flat()), new Set([...names, 'accounts']))
  await queue.stop()
})

test('jobs wait behind one that was added while the accounts were being read', async () => {
  const { queue, taken } = start([])
  queue.look()
  queue.added('acme')
  assert.deepEqual(await taken(), ['accounts', 'acme'])
  assert.equal(queue.has('acme'), true)
  await queue.stop()
})

test('an account is looked at that was added at the very moment when a look ends', async () => {
  for (let steps = 0; steps < 30; steps++) {
    const { queue, taken, jobs } = start([])
    jobs.splice(0)
    queue.added('one')
    for (let step = 0; step < steps; step++) await null
    queue.added('other')
    assert.deepEqual(await taken(), ['one', 'other'], `after ${steps} steps`)
  }
})

test('jobs are queued with their priority and step, at current prices, and have not waited for a model server', async () => {
  const target = { upstream: 'a', model: 'm', price: { input: 2, output: 1 } }
  const known = { prices: new Prices({ m: { targets: [target], max_output_tokens: 10 } }) }
  const { clock, queue, taken, jobs, budgeted } = start(['acme'], known)
  for (const priority of ['high', 'low'] as const) {
    const [first] = jobs
    if (first) jobs.push({ ...first, id: priority, priority })
  }
  queue.look()
  await taken()
  const [{ earlierJson = '', ...asked } = {}] = budgeted
  const queued = { reserved: 12, step: 250 }
  assert.deepEqual(asked, {
    account: 'acme',
    costCap: 9,
    jobs: [
      { jobId: 'one', route: 'a/m', ...queued },
      { jobId: 'high', route: 'a/m !high', ...queued },
      { jobId: 'low', route: 'a/m !low', ...queued },
    ],
    nowMs: clock.nowMs(),
  })
  assert.equal(JSON.parse(earlierJson).sinceMs, clock.nowMs())
  await queue.stop()
})

test('while an earlier version runs, which knows no prices, nothing is queued', async () => {
  const known: { prices: Prices | null } = { prices: null }
  const { clock, queue, taken, budgeted } = start(['acme'], known)
  queue.look()
  await taken()
  assert.equal(budgeted.length, 0)
  known.prices = new Prices({})
  clock.advance(1000)
  await taken()
  assert.equal(budgeted.length, 1)
  await queue.stop()
})
