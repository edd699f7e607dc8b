/**
 * Writes that arrive together share a transaction, and some of their changes are written only at its end. The test compares
 * them with the same writes one after the other, in random histories: results and effects must be equal. A failure prints the
 * seed and the history.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  acceptance,
  DAY_MS,
  expiry,
  ids,
  newJob,
  now,
  restartTime,
  settlement,
  USAGE,
} from '../../../test/store-contract/fixtures.ts'
import { addAccounts, claimNext } from '../../../test/store-contract/steps.ts'
import { folderForTest } from '../../../test/support/backup-files.ts'
import type { Job, Outcome } from '../../job/job.ts'
import type { Store } from '../store.ts'
import { openSqliteStore } from './sqlite-store.ts'

const NODE = 'node-a'
const COST_CAP = 9
const FAILED: Outcome = { status: 'failed', error: { code: 'model_error', message: 'No.' } }
const TOO_LATE = { code: 'deadline_exceeded', message: 'Too late.' } as const

const draw = fc.record({
  kind: fc.constantFrom(
    ...(['accept', 'accept', 'accept', 'accept', 'settle', 'settle', 'settle', 'settle'] as const),
    ...(['cancel', 'cancel own', 'delete', 'release', 'claim', 'fail late', 'delete account'] as const),
  ),
  isFirstAccount: fc.constantFrom(true, true, true, false),
  pick: fc.nat(9),
  amount: fc.constantFrom(undefined, 3, 7),
  isNextMonth: fc.boolean(),
  isSpecial: fc.boolean(),
})
type Draw = typeof draw extends fc.Arbitrary<infer Value> ? Value : never
type Step = (store: Store) => Promise<unknown>

/** Returns steps that both stores run, and the jobs that the steps accept. */
function stepsOf(draws: readonly Draw[], accounts: readonly [string, string]) {
  const jobs = draws.map(({ isFirstAccount, pick, amount }) =>
    newJob({
      account: accounts[isFirstAccount ? 0 : 1],
      model: pick % 3 === 0 ? 'gpt-5' : 'gpt-5-mini',
      ...(amount !== undefined && { reserved: amount }),
      ...(pick === 8 && { deadlineMs: now.ms }),
    }),
  )
  const accepted = jobs.filter((_, at) => draws[at]?.kind === 'accept')
  const steps = draws.map((one, at): Step => {
    const account = accounts[one.isFirstAccount ? 0 : 1]
    const job = accepted[one.pick % Math.max(1, accepted.length)] ?? newJob()
    const nowMs = now.ms + (one.isNextMonth ? 31 * DAY_MS : 0)
    const claim = { jobId: job.id, attempt: 1 }
    switch (one.kind) {
      case 'accept': {
        const own = [jobs[at] ?? newJob()]
        const idempotency = one.pick === 9 ? { key: 'key', fingerprint: 'f', untilMs: nowMs + DAY_MS } : null
        const given = acceptance(own, { handedOff: one.pick % 3 > 0, idempotency, nowMs })
        return (store) => store.accept(one.isSpecial ? { ...given, costCap: COST_CAP } : given)
      }
      case 'settle': {
        const usage = one.amount === undefined ? USAGE : { ...USAGE, cost: one.amount }
        const ended = { model: job.model, usage, nowMs, ...(one.isSpecial && { outcome: FAILED }) }
        return (store) => store.settle(settlement(claim, ended))
      }
      case 'cancel':
        return (store) => store.cancelJob(job.id, nowMs)
      case 'cancel own':
        return (store) =>
          store.cancelOwnJob({ account: job.account, jobId: job.id, nowMs, inputTokens: one.amount ?? null })
      case 'delete':
        return (store) => store.deleteJob(job.id)
      case 'release':
        return (store) => store.release(NODE, [claim])
      case 'claim':
        return async (store) => ids(await claimNext(store, NODE, 1 + (one.pick % 3), nowMs))
      case 'fail late':
        return (store) => store.failOverdue({ route: null, error: TOO_LATE }, nowMs, 9)
      default:
        return (store) => store.deleteAccount(account, `deleted ${account}`)
    }
  })
  return { steps, jobs: accepted }
}

/** Returns the result, or the name of the error. */
async function resultOf(step: Promise<unknown>): Promise<unknown> {
  return step.catch((error: Error) => error.name)
}

async function stateOf(store: Store, accounts: readonly string[], jobs: readonly Job[]) {
  await store.takeCancelled(NODE)
  return {
    usage: await store.listUsage({ limit: 10_000 }),
    quotas: await Promise.all(accounts.map((account) => store.quotaUse(account))),
    jobs: await Promise.all(jobs.map(({ id, account }) => store.read(account, id, expiry(now.ms)))),
    depth: await store.depth(),
    queue: ids(await claimNext(store, NODE, 1000)),
  }
}

test('writes of one transaction have the effect of writes one after the other', async (t) => {
  restartTime()
  const folder = await folderForTest(t)
  const onFatal = (error: Error) => {
    throw error
  }
  const open = (name: string) =>
    openSqliteStore({ path: join(folder, name), maxQueued: 1000, nowMs: () => now.ms, onFatal })
  const [apart, together] = [await open('apart.db'), await open('together.db')]
  t.after(() => Promise.all([apart.close(), together.close()]))
  let runs = 0
  const histories = fc.asyncProperty(
    fc.array(draw, { minLength: 2, maxLength: 10, size: 'max' }),
    async (draws) => {
      runs += 1
      const accounts = [`one ${runs}`, `two ${runs}`] as const
      for (const store of [apart, together]) await addAccounts(store, ...accounts)
      const { steps, jobs } = stepsOf(draws, accounts)
      const expected: unknown[] = []
      for (const step of steps) expected.push(await resultOf(step(apart)))
      assert.deepEqual(await Promise.all(steps.map((step) => resultOf(step(together)))), expected)
      assert.deepEqual(await stateOf(together, accounts, jobs), await stateOf(apart, accounts, jobs))
    },
  )
  // After a difference, the two stores are unequal, so fast-check could not search for a shorter history.
  await fc.assert(histories, { numRuns: process.env.PARLEY_LONG ? 2000 : 300, endOnFailure: true })
})
