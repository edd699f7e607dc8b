/** Which jobs a worker executes when slots or bytes are short, on a real store. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { acceptance, newJob } from '../../test/store-contract/fixtures.ts'
import { addAccounts } from '../../test/store-contract/steps.ts'
import { start as startWorker } from '../../test/support/start-worker.ts'
import { jobBytes } from '../sharing/byte-budget.ts'

const MB = 1_000_000
/** The byte share. Large jobs may use seven eighths of it. */
const SHARE = 80 * MB

interface Options {
  readonly slots?: number
  readonly bytes?: number
}

const ACCOUNTS = [
  'many',
  'other',
  'single',
  'mine',
  'late',
  'busy',
  'huge',
  'small',
  'first',
  'third',
  'fourth',
  'fifth',
]

/** Starts a worker. `running` lists the accounts of its jobs in the order in which they started. */
async function start(t: TestContext, { slots = 64, bytes = SHARE }: Options = {}) {
  const { store, worker, enqueue, executions, settled } = await startWorker(t, slots, undefined, bytes)
  await addAccounts(store, ...ACCOUNTS)
  const ended = new Set<string>()
  const running = () => executions.all.filter(({ job }) => !ended.has(job.id)).map(({ job }) => job.account)
  /** Ends the first running job of the account, and waits until the worker has used the freed capacity. */
  const end = async (account: string): Promise<void> => {
    const execution = executions.all.find(({ job }) => job.account === account && !ended.has(job.id))
    assert.ok(execution, `${account} runs nothing`)
    ended.add(execution.job.id)
    execution.end()
    await settled.atLeast(ended.size)
    await quiet()
  }
  /** Waits until the claims in progress have ended: each takes a few turns of the storage thread. */
  const quiet = async () => {
    for (let turn = 0; turn < 20; turn++) await store.ping()
  }
  /** Queues the jobs and lets the worker claim. */
  const queue = async (...jobs: ReturnType<typeof newJob>[]): Promise<void> => {
    for (const job of jobs) await store.accept(acceptance([job]))
    worker.wake()
    await quiet()
  }
  worker.wake()
  await quiet()
  return { store, worker, enqueue, executions, running, end, queue, quiet, heldBack: () => worker.heldBack() }
}

/** A job that takes about this many bytes of memory. */
function job(account: string, bytes = 0) {
  const text = Math.max(0, Math.floor((bytes - jobBytes(0)) / (jobBytes(1) - jobBytes(0))) - 60)
  return newJob({ account, messages: [{ role: 'user', content: 'x'.repeat(text) }] })
}

const several = (count: number, account: string, bytes = 0) =>
  Array.from({ length: count }, () => job(account, bytes))

const counts = (accounts: readonly string[]) =>
  Object.fromEntries(
    [...new Set(accounts)].map((one) => [one, accounts.filter((other) => other === one).length]),
  )

test('the reserve goes only to accounts that hold no slot, by hand-off', async (t) => {
  const { enqueue, running, quiet } = await start(t, { slots: 32 })
  await enqueue(...several(30, 'many'))
  await enqueue(job('single'))
  await quiet()
  assert.deepEqual(counts(running()), { many: 30, single: 1 })
  await enqueue(job('many'))
  await enqueue(job('single'))
  await quiet()
  assert.deepEqual(counts(running()), { many: 30, single: 1 })
})

test('the reserve goes only to accounts that hold no slot, by claims', async (t) => {
  const { enqueue, running, end, quiet, queue, heldBack } = await start(t, { slots: 32 })
  assert.deepEqual(heldBack(), [])
  await queue(...several(300, 'many'))
  assert.deepEqual(heldBack(), [{ account: 'many', reason: 'slots' }])
  assert.deepEqual(counts(running()), { many: 30 })
  await enqueue(...several(3, 'single'))
  await quiet()
  assert.deepEqual(counts(running()), { many: 30, single: 1 })
  await queue(job('other'), job('third'))
  assert.equal(running().length, 32)
  // Accounts alternate.
  await end('single')
  assert.deepEqual(counts(running()), { many: 30, other: 1, third: 1 })
  await end('other')
  assert.deepEqual(counts(running()), { many: 30, third: 1, single: 1 })
})

test('with three slots there is no reserve', async (t) => {
  const { enqueue, running, quiet } = await start(t, { slots: 3 })
  await enqueue(...several(4, 'many'))
  await enqueue(job('single'))
  await quiet()
  assert.deepEqual(counts(running()), { many: 3 })
})

test('a freed slot goes to the next job in fair order, and only the reserve to accounts without a slot', async (t) => {
  const { enqueue, running, end, queue } = await start(t, { slots: 16 })
  await queue(...several(40, 'many'))
  await enqueue(...several(40, 'busy'))
  for (let ended = 0; ended < 10; ended++) await end('many')
  // Accounts that hold slots get none from the reserve, whoever holds those.
  assert.equal(running().length, 15)
  assert.ok((counts(running()).busy ?? 0) >= 5, JSON.stringify(counts(running())))
})

test('an account runs large jobs up to its part, and others run meanwhile', async (t) => {
  const { running, queue, enqueue, quiet, heldBack } = await start(t)
  await queue(...several(20, 'many', 10 * MB))
  assert.deepEqual(heldBack(), [{ account: 'many', reason: 'memory' }])
  assert.deepEqual(counts(running()), { many: 3 })
  await queue(...several(2, 'other', 9 * MB), ...several(5, 'other'))
  await enqueue(job('third', MB))
  await quiet()
  assert.deepEqual(counts(running()), { many: 3, other: 7, third: 1 })
})

test('all large jobs of an account run, one after another', async (t) => {
  const { running, end, queue } = await start(t)
  await queue(...several(9, 'many', 10 * MB))
  for (let left = 9; left > 0; left--) {
    assert.deepEqual(running().length, Math.min(3, left))
    await end('many')
  }
})

test('small jobs of an account run while its large ones wait', async (t) => {
  const { running, queue } = await start(t)
  await queue(...several(3, 'many', 15 * MB), ...several(3, 'other'))
  await queue(...several(3, 'other'))
  assert.deepEqual(counts(running()), { many: 2, other: 6 })
})

test('a job larger than the share waits until no other large one runs, and is not overtaken forever', async (t) => {
  const { running, end, queue } = await start(t)
  await queue(job('first', 10 * MB))
  await queue(job('huge', 200 * MB), job('late', 5 * MB), job('late'), job('small'))
  // A large job of another account starts in the reserve. Small jobs always start.
  assert.deepEqual(counts(running()), { first: 1, late: 2, small: 1 })
  await queue(job('late', MB), job('fourth', 6 * MB), job('fifth', 4 * MB))
  assert.deepEqual(counts(running()), { first: 1, late: 2, small: 1, fifth: 1 })
  await end('first')
  assert.deepEqual(counts(running()), { late: 2, small: 1, fifth: 1, huge: 1 })
  await queue(job('small'))
  assert.deepEqual(counts(running()), { late: 2, small: 2, fifth: 1, huge: 1 })
  await end('huge')
  assert.deepEqual(counts(running()), { late: 3, small: 2, fifth: 1, fourth: 1 })
})

test('jobs that were not accepted after all free what they held for jobs that wait', async (t) => {
  const { worker, running, queue, quiet } = await start(t)
  const notAccepted = [job('mine', 30 * MB)]
  const places = worker.reserve(notAccepted, false)
  assert.equal(places.length, 1)
  await queue(job('mine', 30 * MB))
  assert.deepEqual(running(), [], 'together they are over the part of the account')
  worker.free(places)
  await quiet()
  assert.deepEqual(running(), ['mine'])
})

test('a job that fills the share does not delay a job of another account that is much smaller', async (t) => {
  const { running, queue, enqueue, quiet, end } = await start(t)
  await enqueue(...several(3, 'many', 75 * MB))
  await enqueue(job('other', 0.4 * MB))
  await quiet()
  assert.deepEqual(running(), ['many', 'other'])
  await queue(job('other', 0.4 * MB), job('third', 0.4 * MB))
  assert.deepEqual(running(), ['many', 'other', 'third'])
  await end('other')
  assert.deepEqual(running(), ['many', 'third', 'other'])
})

test('a job in the reserve makes room for that of another account as soon as it is called', async (t) => {
  const { executions, running, queue } = await start(t, { slots: 256 })
  await queue(...several(240, 'many'))
  const others = ACCOUNTS.filter((account) => account !== 'many')
  await queue(...others.slice(0, 9).map((account) => job(account)))
  assert.equal(running().length, 240 + 8)
  for (const { events } of executions.all) await events.beforeCall?.()
  await queue(job(others[9] ?? ''))
  assert.equal(running().length, 240 + 10)
})
