/** `npm run simulate` runs many seeds of the simulation, or one seed with all its steps (docs/internals/simulation.md). */
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { readOptions } from '../support/command-options.ts'
import { generatePlan } from './generate.ts'
import { STORES_AGREE, type Violation } from './ledger.ts'
import { describeAction, type Plan, parsePlan, type StoredPlan } from './plan.ts'
import type { RealStores } from './real-stores.ts'
import { shrink } from './shrink.ts'
import { type Result, simulate } from './simulate.ts'

const values = readOptions('Runs many seeds of the simulation, or one with all its steps.', {
  seed: { type: 'string', help: 'Runs only this seed, and prints its steps.' },
  plan: { type: 'string', help: 'Runs only the plan in this file, and prints its steps.' },
  all: {
    type: 'boolean',
    default: false,
    help: 'With --seed or --plan: prints every event, including timers and store calls.',
  },
  seeds: { type: 'string', default: '1000', help: 'The number of seeds.' },
  from: { type: 'string', help: 'The first seed; random if absent.' },
  minutes: {
    type: 'string',
    help: 'After this time, no further seed is started, and --seeds does not count.',
  },
  'until-failure': { type: 'boolean', default: false, help: 'Stops at the first failure.' },
  store: {
    type: 'string',
    help: "A real store that also runs every call, sqlite or postgres. By default the plan's, or none.",
  },
  'no-shrink': {
    type: 'boolean',
    default: false,
    help: 'Reports failures without shrinking them, which is faster.',
  },
})

/** Random first seeds are below this number, so that they are easy to type. */
const LAST_BASE = 1_000_000_000

const print = (text: string) => void process.stdout.write(`${text}\n`)
const seconds = (ms: number) => `${(ms / 1000).toFixed(3).padStart(9)} s`

function printFailures({ violations }: Result): void {
  for (const { rule, what, atMs } of violations) print(`${seconds(atMs)}  BROKEN: ${rule}\n    ${what}`)
}

function readPlan(): StoredPlan | null {
  if (values.plan !== undefined) return parsePlan(readFileSync(values.plan, 'utf8'))
  return values.seed === undefined ? null : generatePlan(Number(values.seed))
}

async function realStores(store: string): Promise<RealStores | null> {
  if (store === 'memory') return null
  const { sqliteStores, postgresStores } = await import('./real-stores.ts')
  if (store === 'sqlite') return sqliteStores()
  if (store === 'postgres') return postgresStores()
  throw new Error(`--store is ${store}: it must be memory, sqlite or postgres`)
}

const one = readPlan()
const stores = await realStores(values.store ?? one?.store ?? 'memory')

/**
 * Returns what must stay the same when a history shrinks: the rule that it breaks, and if the results of both stores differ,
 * the call in which they do.
 */
function kindOf({ rule, what }: Violation): string {
  return rule === STORES_AGREE ? `${rule}: ${what.split(' ', 1)}` : rule
}

async function runWithSteps(plan: Plan): Promise<Result> {
  const result = await simulate(plan, {
    stores,
    onStep: (atMs, text, kind) => {
      if (kind === 'state' || values.all) print(`${seconds(atMs)}  ${text}`)
    },
  })
  printFailures(result)
  return result
}

async function reportFailure(plan: Plan, result: Result): Promise<void> {
  print(`\nSeed ${plan.seed} breaks:`)
  printFailures(result)
  if (values['no-shrink']) return
  const [first] = result.violations.map(kindOf)
  const smallest = await shrink(plan, async (smaller) => {
    const { violations } = await simulate(smaller, { stores })
    return violations.some((violation) => kindOf(violation) === first)
  })
  print(
    `\nThe smallest history that breaks it has ${smallest.actions.length} of ${plan.actions.length} actions:`,
  )
  for (const action of smallest.actions) print(describeAction(action))
  print(`\nIts steps:`)
  await runWithSteps(smallest)
  const { actions, ...settings } = smallest
  print(`\nAs a plan, for a test:\n${JSON.stringify({ ...settings, actions })}\n`)
}

async function runMany(): Promise<boolean> {
  const from = values.from === undefined ? randomInt(LAST_BASE) : Number(values.from)
  print(`seeds from ${from}`)
  const untilMs = values.minutes === undefined ? Number.POSITIVE_INFINITY : Number(values.minutes) * 60_000
  const most = values.minutes === undefined ? Number(values.seeds) : Number.POSITIVE_INFINITY
  const startedMs = performance.now()
  const sums = { seeds: 0, failed: 0, simulatedMs: 0, events: 0, jobs: 0 }
  let isInterrupted = false
  process.once('SIGINT', () => {
    isInterrupted = true
  })
  const mayGoOn = () => !isInterrupted && sums.seeds < most && performance.now() - startedMs < untilMs
  for (let seed = from; mayGoOn(); seed++) {
    // Signals to the process are handled between two seeds.
    await nextTurn()
    const plan = generatePlan(seed)
    const result = await simulate(plan, { stores })
    sums.seeds += 1
    sums.simulatedMs += result.simulatedMs
    sums.events += result.events
    sums.jobs += result.jobs
    if (result.violations.length === 0) continue
    sums.failed += 1
    await reportFailure(plan, result)
    if (values['until-failure']) break
  }
  const minutes = (performance.now() - startedMs) / 60_000
  const perMinute = (count: number) => Math.round(count / minutes).toLocaleString('en')
  const hours = sums.simulatedMs / 3_600_000
  print(
    `${sums.seeds} seeds from ${from}, ${sums.failed} failed: ${hours.toFixed(1)} simulated hours, ${sums.jobs} jobs and ${sums.events} events in ${minutes.toFixed(1)} min (${perMinute(sums.seeds)} seeds and ${perMinute(hours)} hours per minute)`,
  )
  return sums.failed === 0
}

if (one === null) process.exitCode = (await runMany()) ? 0 : 1
else {
  const result = await runWithSteps(one)
  print(`history ${result.hash}, ${result.events} events, ${seconds(result.simulatedMs)} of simulated time`)
  process.exitCode = result.violations.length === 0 ? 0 : 1
}
await stores?.close()
