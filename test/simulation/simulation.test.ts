/** Tests seeds of the simulation: all rules hold, a seed always gives the same history, and a failing history shrinks. */
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { LONG } from '../support/long-form.ts'
import { ROOT } from '../support/project-sources.ts'
import { generatePlan } from './generate.ts'
import { MUTATIONS } from './mutations.ts'
import { parsePlan } from './plan.ts'
import { postgresStores, sqliteStores } from './real-stores.ts'
import { shrink } from './shrink.ts'
import { simulate } from './simulate.ts'

const FOUND = join(ROOT, 'test/simulation/found')
const SEEDS = LONG ? 100_000 : 60
const PART = LONG ? 10_000 : 30

/** The first seed is random in the long form. The names of the tests contain it. */
const FIRST = LONG ? randomInt(1_000_000_000) : 1

for (let from = FIRST; from < FIRST + SEEDS; from += PART) {
  test(`seeds ${from} to ${from + PART - 1} hold every rule`, async () => {
    for (let seed = from; seed < from + PART; seed++) {
      const { violations } = await simulate(generatePlan(seed))
      assert.deepEqual(violations, [], `npm run simulate -- --seed ${seed} shows the steps`)
    }
  })
}

test('without patience for model servers, every rule holds', async () => {
  for (let seed = 1; seed <= PART / 5; seed++) {
    const { violations } = await simulate({ ...generatePlan(seed), patienceMs: 0 })
    assert.deepEqual(violations, [], `seed ${seed}`)
  }
})

/** Every call on a real store takes real time, so in the short form, the histories of each store have a time limit. */
const FIRST_MS = LONG ? Number.POSITIVE_INFINITY : 10_000
const REAL = [
  { name: 'SQLite', open: sqliteStores, seeds: LONG ? 200 : 2 },
  { name: 'Postgres', open: postgresStores, seeds: LONG ? 100 : 1 },
]
for (const { name, open, seeds } of REAL) {
  test(`the histories of ${seeds} seeds are the same on ${name}`, async (t) => {
    const stores = await open()
    t.after(() => stores.close())
    for (let seed = FIRST; seed < FIRST + seeds; seed++) {
      const plan = generatePlan(seed)
      const actions = plan.actions.filter(({ atMs }) => atMs <= FIRST_MS)
      const { violations } = await simulate({ ...plan, actions }, { stores, hasLoad: LONG })
      const again = `npm run simulate -- --store ${name.toLowerCase()} --seed ${seed} shows the steps`
      assert.deepEqual(violations, [], again)
    }
  })
}

const STORED = readdirSync(FOUND).map((file) => {
  const plan = parsePlan(readFileSync(join(FOUND, file), 'utf8'))
  return { file, title: file.replaceAll('-', ' ').replace('.json', ''), plan }
})
const STORES = { sqlite: sqliteStores, postgres: postgresStores }

for (const { file, title, plan } of STORED) {
  const { store, unfixed } = plan
  test(`a history that ${unfixed ? 'still breaks' : 'broke'} a rule: ${title}`, async (t) => {
    const stores = store === undefined ? null : await STORES[store]()
    t.after(() => stores?.close())
    const { violations } = await simulate(plan, { stores, hasLoad: stores === null || LONG })
    if (unfixed === undefined) return assert.deepEqual(violations, [])
    const [first] = violations
    assert.ok(first, `${title} breaks no rule any more: remove "unfixed" from test/simulation/found/${file}`)
    // Once the stores disagree, the history ends, and therefore breaks other rules after the first one.
    const found = { rule: first.rule, what: first.what.slice(0, unfixed.what.length) }
    assert.deepEqual(found, unfixed, `${title} breaks another rule first: ${first.what}`)
  })
}

test('a seed is the same history each time, and another seed another one', async () => {
  const hashes = new Set<string>()
  for (const seed of [11, 12, 13]) {
    const plan = generatePlan(seed)
    assert.deepEqual(generatePlan(seed), plan)
    const first = await simulate(plan)
    assert.deepEqual(await simulate(plan), first)
    hashes.add(first.hash)
  }
  assert.equal(hashes.size, 3)
})

test('each mutation still has its one place in the sources', () => {
  for (const { what, file, text } of MUTATIONS) {
    const source = readFileSync(join(ROOT, file), 'utf8')
    assert.equal(
      source.split(text).length,
      2,
      `${what}: ${file} has its text once (test/simulation/mutations.diff)`,
    )
  }
})

test('each stored plan has the defect that it must detect', () => {
  const plans = MUTATIONS.flatMap(({ plans }) => plans.map((plan) => `${plan}.json`))
  // The history of a bug that is not fixed needs no further defect.
  const fixed = STORED.filter(({ plan }) => plan.unfixed === undefined).map(({ file }) => file)
  assert.deepEqual(plans.toSorted(), fixed.toSorted())
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
