/** Tests what autoscalers learn about the queue. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { leastJobId } from '../job/job-id.ts'
import { BUDGET_QUEUES } from '../store/usage-store.ts'
import { routeSignals, withoutBudgetQueues } from './route-signals.ts'

test('queues of all priorities and jobs that wait in memory are added up by route, and idle routes have none', () => {
  const queues = [
    { route: 'a/m b/m', jobs: 3, oldestId: leastJobId(2000) },
    { route: 'a/m b/m !low', jobs: 4, oldestId: leastJobId(1000) },
    { route: 'gone/m', jobs: 1, oldestId: leastJobId(500) },
    ...BUDGET_QUEUES.map((route) => ({ route, jobs: 9, oldestId: leastJobId(100) })),
    { route: '', jobs: 2, oldestId: leastJobId(700) },
  ]
  const waiting = [
    { route: 'a/m b/m', jobIds: new Set([leastJobId(900), leastJobId(3000)]) },
    { route: 'b/m', jobIds: new Set<string>() },
  ]
  assert.deepEqual(routeSignals(queues, waiting), [
    { targets: ['a/m', 'b/m'], queued: 7, waiting: 2, oldestMs: 900 },
    { targets: ['b/m'], queued: 0, waiting: 0, oldestMs: null },
    { targets: ['gone/m'], queued: 1, waiting: 0, oldestMs: 500 },
    { targets: [], queued: 2, waiting: 0, oldestMs: 700 },
  ])
})

test('jobs that wait for the budget of their account do not count as queued', () => {
  const depth = { waiting: 40, assigned: 1, oldestCreatedAtMs: 100 }
  const others = [
    { route: 'a/m', jobs: 3, oldestId: leastJobId(2000) },
    { route: 'b/m', jobs: 4, oldestId: leastJobId(1000) },
  ]
  const budget = BUDGET_QUEUES.map((route) => ({ route, jobs: 11, oldestId: leastJobId(100) }))
  assert.deepEqual(withoutBudgetQueues(depth, others), depth)
  assert.deepEqual(withoutBudgetQueues(depth, [...budget, ...others]), {
    waiting: 7,
    assigned: 1,
    oldestCreatedAtMs: 1000,
  })
  assert.deepEqual(withoutBudgetQueues(depth, budget), { waiting: 0, assigned: 1, oldestCreatedAtMs: null })
})
