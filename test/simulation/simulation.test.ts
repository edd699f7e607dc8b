/** Seeds of the simulation: that they hold all rules, that each is the same history every time, and that a history shrinks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LONG } from '../support/long-form.ts'
import { generatePlan } from './generate.ts'
import { shrink } from './shrink.ts'
import { simulate } from './simulate.ts'

const SEEDS = LONG ? 100_000 : 200
/** Seeds of one test. */
const PART = LONG ? 10_000 : 100

for (let from = 1; from <= SEEDS; from += PART) {
  test(`seeds ${from} to ${from + PART - 1} hold every rule`, async () => {
    for (let seed = from; seed < from + PART; seed++) {
      const { violations } = await simulate(generatePlan(seed))
      assert.deepEqual(violations, [], `npm run simulate -- --seed ${seed} shows the steps`)
    }
  })
}

test('a seed is the same history each time, and another seed another one', async () => {
  const hashes = new Set<string>()
  for (const seed of [11, 12, 13, 14, 15]) {
    const plan = generatePlan(seed)
    assert.deepEqual(generatePlan(seed), plan)
    const first = await simulate(plan)
    assert.deepEqual(await simulate(plan), first)
    hashes.add(first.hash)
  }
  assert.equal(hashes.size, 5)
})

test('a failing history shrinks to the actions that it needs', async () => {
  const plan = generatePlan(21)
  const creates = plan.actions.filter(({ kind }) => kind === 'create')
  const needed = [creates.at(1), creates.at(-1)]
  const fails = async ({ actions, nodes }: typeof plan) =>
    nodes > 0 && needed.every((one) => actions.some(({ atMs }) => atMs === one?.atMs))
  const { actions, nodes } = await shrink(plan, fails)
  assert.deepEqual([nodes, actions.map(({ atMs }) => atMs)], [1, needed.map((one) => one?.atMs)])
  assert.ok(actions.every((action) => action.kind === 'create' && action.jobs.length === 1))
})
