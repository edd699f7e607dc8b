/** Tests which jobs a worker executes when slots or bytes are short, on a real store. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { acceptance, newJob } from '../../test/store-contract/fixtures.ts'
import { addAccounts } from '../../test/store-contract/steps.ts'
import { start as startWorker } from '../../test/support/start-worker.ts'
import { jobBytes } from '../sharing/byte-budget.ts'

/** The sizes below are in this unit. A job of at most 0.3 units is small (`SMALL_BYTES`). */
const UNIT = 200_000
/** Large jobs may use seven eighths of this share. */
const SHARE = 80 * UNIT
const ACCOUNTS = 'many other single mine late busy huge small first third fourth fifth'.split(' ')

type Jobs = readonly ReturnType<typeof newJob>[]

/** `running` returns how many jobs of each account the worker runs. */
async function start(t: TestContext, slots = 64) {
  const { store, worker, enqueuer, executions, settled } = await startWorker(t, slots, undefined, SHARE)
  await addAccounts(store, ...ACCOUNTS)
  const ended = new Set<string>()
  const left = () => executions.all.filter(({ job }) => !ended.has(job.id))
  const running = (): Record<string, number> => {
    const accounts = left().map(({ job }) => job.account)
    return Object.fromEntries(accounts.map((one) => [one, accounts.filter((other) => other === one).length]))
  }
  /** Waits until the claims in progress have ended. Each takes a few turns of the storage thread. */
  const quiet = async () => {
    for (let turn = 0; turn < 20; turn++) await store.ping()
  }
  /** Ends the first running job of the account, and waits until the worker has used the freed capacity. */
  const end = async (account: string): Promise<void> => {
    const execution = left().find(({ job }) => job.account === account)
    assert.ok(execution, `${account} runs nothing`)
    ended.add(execution.job.id)
    execution.end()
    await settled.atLeast(ended.size)
    await quiet()
  }
  /** Queues the jobs and lets the worker claim. */
  const queue = async (...jobs: Jobs): Promise<void> => {
    for (const job of jobs) await store.accept(acceptance([job]))
    worker.wake()
    await quiet()
  }
  /** Creates the jobs at this node, which may execute them without a claim. */
  const create = async (...jobs: Jobs): Promise<void> => {
    await enqueuer.enqueue(jobs, { idempotency: null, awaited: false })
    await quiet()
  }
  worker.wake()
  await quiet()
  return { worker, executions, running, end, queue, create, quiet }
}

/** Returns a job that takes about this many units of memory. */
function job(account: string, units = 0) {
  const text = Math.floor((units * UNIT - jobBytes(0)) / (jobBytes(1) - jobBytes(0))) - 60
  return newJob({ account, messages: [{ role: 'user', content: 'x'.repeat(Math.max(0, text)) }] })
}

const several = (count: number, account: string, units = 0) =>
  Array.from({ length: count }, () => job(account, units))

test('the reserve goes only to accounts that hold no slot, by hand-off', async (t) => {
  const { create, running } = await start(t, 32)
  await create(...several(30, 'many'))
  await create(job('single'))
  assert.deepEqual(running(), { many: 30, single: 1 })
  await create(job('many'))
  await create(job('single'))
  assert.deepEqual(running(), { many: 30, single: 1 })
})

test('the reserve goes only to accounts that hold no slot, by claims', async (t) => {
  const { worker, create, running, end, queue } = await start(t, 32)
  assert.deepEqual(worker.heldBack(), [])
  await queue(...several(300, 'many'))
  assert.deepEqual(worker.heldBack(), [{ account: 'many', reason: 'slots' }])
  assert.deepEqual(running(), { many: 30 })
  await create(...several(3, 'single'))
  assert.deepEqual(running(), { many: 30, single: 1 })
  await queue(job('other'), job('third'))
  assert.deepEqual(running(), { many: 30, single: 1, other: 1 })
  await end('single')
  assert.deepEqual(running(), { many: 30, other: 1, third: 1 })
  await end('other')
  assert.deepEqual(running(), { many: 30, third: 1, single: 1 })
})

test('a freed slot goes to the next job in fair order, and only the reserve to accounts without a slot', async (t) => {
  const { create, running, end, queue } = await start(t, 16)
  await queue(...several(40, 'many'))
  await create(...several(40, 'busy'))
  for (let ended = 0; ended < 10; ended++) await end('many')
  // An account that holds a slot gets none from the reserve.
  const { many = 0, busy = 0 } = running()
  assert.ok(many + busy === 15 && busy >= 5, `${many} and ${busy}`)
})

test('an account runs large jobs up to its part, one after another, and others run meanwhile', async (t) => {
  const { worker, running, queue, create, end } = await start(t)
  await queue(...several(9, 'many', 10))
  assert.deepEqual(worker.heldBack(), [{ account: 'many', reason: 'memory' }])
  assert.deepEqual(running(), { many: 3 })
  await queue(...several(2, 'other', 9), ...several(5, 'other'))
  await create(job('third', 1))
  assert.deepEqual(running(), { many: 3, other: 7, third: 1 })
  for (let ended = 0; ended < 7; ended++) await end('other')
  for (let left = 9; left > 0; left--) {
    assert.equal(running().many, Math.min(3, left))
    await end('many')
  }
})

test('small jobs of an account run while its large ones wait', async (t) => {
  const { running, queue } = await start(t)
  await queue(...several(3, 'many', 15), ...several(3, 'other'))
  await queue(...several(3, 'other'))
  assert.deepEqual(running(), { many: 2, other: 6 })
})

test('a job larger than the share waits until no other large one runs, and is not overtaken forever', async (t) => {
  const { running, end, queue } = await start(t)
  await queue(job('first', 10))
  await queue(job('huge', 200), job('late', 5), job('late'), job('small'))
  // A large job of another account starts in the reserve. Small jobs always start.
  assert.deepEqual(running(), { first: 1, late: 2, small: 1 })
  await queue(job('late', 1), job('fourth', 6), job('fifth', 4))
  assert.deepEqual(running(), { first: 1, late: 2, small: 1, fifth: 1 })
  await end('first')
  assert.deepEqual(running(), { late: 2, small: 1, fifth: 1, huge: 1 })
  await queue(job('small'))
  assert.deepEqual(running(), { late: 2, small: 2, fifth: 1, huge: 1 })
  await end('huge')
  assert.deepEqual(running(), { late: 3, small: 2, fifth: 1, fourth: 1 })
})

test('jobs that were not accepted after all free what they held for jobs that wait', async (t) => {
  const { worker, running, queue, quiet } = await start(t)
  const places = worker.reserve([job('mine', 30)], false)
  assert.equal(places.length, 1)
  await queue(job('mine', 30))
  assert.deepEqual(running(), {}, 'together they are over the part of the account')
  worker.free(places)
  await quiet()
  assert.deepEqual(running(), { mine: 1 })
})

test('a job that fills the share does not delay a job of another account that is much smaller', async (t) => {
  const { running, queue, create, end } = await start(t)
  await create(...several(3, 'many', 75))
  await create(job('other', 0.4))
  assert.deepEqual(running(), { many: 1, other: 1 })
  await queue(job('other', 0.4), job('third', 0.4))
  assert.deepEqual(running(), { many: 1, other: 1, third: 1 })
  await end('other')
  assert.deepEqual(running(), { many: 1, third: 1, other: 1 })
})

test('a job in the reserve makes room for that of another account as soon as it is called', async (t) => {
  const { executions, queue } = await start(t, 256)
  await queue(...several(240, 'many'))
  const others = ACCOUNTS.filter((account) => account !== 'many')
  await queue(...others.slice(0, 9).map((account) => job(account)))
  assert.equal(executions.all.length, 240 + 8)
  for (const { events } of executions.all) await events.beforeCall?.()
  await queue(job(others[9] ?? ''))
  assert.equal(executions.all.length, 240 + 10)
})
