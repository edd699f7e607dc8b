/** Tests which jobs a worker executes, when, and how executions end. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { acceptance, newJob } from '../../test/store-contract/fixtures.ts'
import { claimQueued, NODE, replacing, start, startOne, status } from '../../test/support/start-worker.ts'
import { type Settlement, type Store, StoreUnavailable, WriteRejected } from '../store/store.ts'

test('executes what was queued before it began', async (t) => {
  const { store, worker, executions, settled } = await start(t)
  const job = newJob()
  await store.accept(acceptance([job]))
  worker.wake()
  const [run] = await executions.atLeast(1)
  assert.equal(run?.job.id, job.id)
  run?.end()
  await settled.atLeast(1)
  assert.equal(await status(store, job), 'completed')
})

test('executes an accepted job itself when it has free slots, and queues the rest', async (t) => {
  const { store, worker, enqueue, executions, settled } = await start(t, 2)
  worker.wake()
  await runsNothingWaits(store)
  const jobs = [newJob(), newJob(), newJob()]
  await enqueue(...jobs)
  const first = await executions.atLeast(2)
  assert.deepEqual(
    first.map(({ job }) => job.attempt),
    [1, 1],
  )
  assert.equal((await store.depth()).waiting, 1)
  first[0]?.end()
  const all = await executions.atLeast(3)
  assert.equal(all[2]?.job.id, jobs[2]?.id)
  for (const run of all) run.end()
  await settled.atLeast(3)
  assert.deepEqual(await store.depth(), { waiting: 0, assigned: 0, oldestCreatedAtMs: null })
})

/** Waits until the worker's first claim has found nothing. */
async function runsNothingWaits(store: Store): Promise<void> {
  await store.ping()
  await store.ping()
}

test('a job that this node claims again has one run: the earlier one is lost', async (t) => {
  const { store, worker, executions, settled, job } = await startOne(t)
  // Another node believes that this one is dead, and rescues the job.
  await store.release(NODE, [{ jobId: job.id, attempt: 1 }])
  worker.wake()
  const [first, second] = await executions.atLeast(2)
  assert.deepEqual([first?.signal.reason, second?.signal.reason], ['lost', null])
  assert.deepEqual(worker.claims(), [{ jobId: job.id, attempt: 2 }])
  second?.end()
  const [[, how] = []] = await settled.atLeast(1)
  assert.deepEqual([how, settled.all.length], ['settled', 1])
})

test('a job that this node claims again while its earlier run is being settled stays held', async (t) => {
  const settling = Promise.withResolvers<void>()
  const slow = replacing('settle', (store) => async (one) => {
    if (one.attempt === 1) await settling.promise
    return store.settle(one)
  })
  const { store, worker, executions, settled, job, run } = await startOne(t, 2, slow)
  run.end()
  await store.release(NODE, [{ jobId: job.id, attempt: 1 }])
  worker.wake()
  const [, second] = await executions.atLeast(2)
  settling.resolve()
  await settled.atLeast(1)
  assert.deepEqual(worker.claims(), [{ jobId: job.id, attempt: 2 }])
  second?.end()
  const ends = await settled.atLeast(2)
  assert.deepEqual(
    ends.map(([, how]) => how),
    ['stale', 'settled'],
  )
  await worker.drain(0)
})

test('a job that a cached response completes is settled without an execution, and its slot is free', async (t) => {
  const jobs = [newJob(), newJob(), newJob()]
  const answering = replacing('accept', (store) => async (one) => {
    const isAnswered = ({ job }: (typeof one.jobs)[number]) => job.id !== jobs[1]?.id
    await store.accept({ ...one, jobs: one.jobs.filter((each) => !isAnswered(each)) })
    const answered = one.jobs.filter(isAnswered).map(({ job }) => ({ jobId: job.id, contentJson: null }))
    return { kind: 'accepted', answered }
  })
  const { store, worker, enqueue, executions, settled } = await start(t, 2, answering)
  worker.wake()
  await runsNothingWaits(store)
  await enqueue(...jobs)
  const [run] = await executions.atLeast(1)
  assert.equal(run?.job.id, jobs[1]?.id)
  assert.deepEqual(
    settled.all.map(([id, how, { usage }]) => [id, how, usage.cache_hit]),
    [jobs[0], jobs[2]].map((job) => [job?.id, 'settled', true]),
  )
  assert.equal(worker.running, 1)
  run?.end()
  await settled.atLeast(3)
  await worker.drain(0)
})

test('an acceptance may wait for a hundredth of the time that its model takes lately', async (t) => {
  const waits: (number | undefined)[] = []
  const watched = replacing('accept', (store) => (one) => {
    waits.push(one.mayWaitMs)
    return store.accept(one)
  })
  const { store, clock, worker, enqueuer, executions, settled } = await start(t, 2, watched)
  worker.wake()
  await runsNothingWaits(store)
  const create = async (model: string, awaited: boolean, ms: number) => {
    await enqueuer.enqueue([newJob({ model })], { idempotency: null, awaited })
    const run = (await executions.atLeast(waits.length)).at(-1)
    clock.advance(ms)
    run?.end()
    await settled.atLeast(waits.length)
  }
  await create('gpt-5', true, 500)
  await create('gpt-5', true, 500)
  await create('gpt-5-mini', true, 60_000)
  await create('gpt-5-mini', true, 0)
  // The caller waits only for the job's ID, not for the answer.
  await create('gpt-5-mini', false, 0)
  assert.deepEqual(waits, [0, 5, 0, 10, 0])
})

test('the deadline ends an execution', async (t) => {
  const { clock, run } = await startOne(t)
  clock.advance(599_999)
  assert.equal(run.signal.reason, null)
  clock.advance(1)
  assert.equal(run.signal.reason, 'timeout')
  run.end()
})

test('a bug in an execution fails the job instead of leaving it without an outcome', async (t) => {
  const { store, settled, errors, job, run } = await startOne(t)
  run.throwUp()
  await settled.atLeast(1)
  assert.equal(await status(store, job), 'failed')
  assert.equal(errors.all.length, 1)
})

for (const [name, error, refusals] of [
  ['the write of an outcome is retried until the database takes it', new StoreUnavailable('disk full'), 2],
  ['an unknown error is retried without another execution', new Error('disk image is malformed'), 1],
] as const) {
  test(name, async (t) => {
    let left: number = refusals
    const refused = () => Promise.reject(error)
    const failing = replacing('settle', (store) => (one) => (left-- > 0 ? refused() : store.settle(one)))
    const { store, clock, executions, settled, job, run } = await startOne(t, 2, failing)
    run.end()
    for (let pauseMs = 100; left > 0; pauseMs *= 2) {
      await clock.timerSet((ms) => ms === pauseMs)
      clock.advance(pauseMs)
    }
    await settled.atLeast(1)
    assert.equal(await status(store, job), 'completed')
    assert.equal(executions.all.length, 1)
  })
}

/**
 * Returns a store that permanently rejects outcomes.
 * @param contentJson the content of the rejected outcomes; null for all outcomes
 */
const rejecting = (contentJson: string | null) => {
  const rejects = ({ outcome }: Settlement) =>
    contentJson === null || (outcome.status === 'completed' && outcome.contentJson === contentJson)
  const rejected = () => Promise.reject(new WriteRejected('does not fit'))
  return replacing('settle', (store) => (one) => (rejects(one) ? rejected() : store.settle(one)))
}

test('an outcome that the database rejects is stored as an internal error', async (t) => {
  const { store, settled, errors, job, run } = await startOne(t, 2, rejecting('"bad"'))
  run.end('"bad"')
  const [[id, how, { outcome }] = assert.fail('not settled')] = await settled.atLeast(1)
  assert.deepEqual([id, how], [job.id, 'settled'])
  assert.equal(outcome.status === 'failed' && outcome.error.code, 'internal_error')
  assert.equal(await status(store, job), 'failed')
  assert.equal(errors.all.length, 1)
})

test('a job of which the database rejects every outcome stays held here until it is lost', async (t) => {
  const { store, worker, enqueue, executions, settled, errors, job, run } = await startOne(
    t,
    1,
    rejecting(null),
  )
  run.end()
  await errors.atLeast(2)
  // The job holds no slot any longer, so another job can start.
  await enqueue(newJob())
  await executions.atLeast(2)
  const claim = { jobId: job.id, attempt: 1 }
  assert.equal(await status(store, job), 'assigned')
  assert.equal(worker.holds(claim), true)
  assert.deepEqual(
    worker.claims().filter(({ jobId }) => jobId === job.id),
    [claim],
  )
  worker.lose(claim)
  assert.equal(worker.holds(claim), false)
  assert.deepEqual(settled.all, [])
})

test('suspects are executed in groups that grow, next to other jobs, and their starts are recorded before their calls', async (t) => {
  const { store, worker, executions, settled } = await start(t, 8)
  await store.accept(acceptance([newJob(), newJob(), newJob(), newJob()]))
  await claimQueued(store, 'dead', 0)
  await store.rescue(NODE, 0)
  await store.accept(acceptance([newJob()]))
  worker.wake()
  const all = await executions.atLeast(2)
  await runsNothingWaits(store)
  const running = () => all.filter(({ job }) => job.crashCount === 1)
  assert.equal(all.length, 2, 'one suspect and the other job')
  assert.deepEqual(worker.suspects, { queued: 4, running: 1 })
  await running()[0]?.events.beforeCall?.()
  // If this node crashed now, only the suspect that has started would count the crash.
  running()[0]?.end()
  await settled.atLeast(1)
  await executions.atLeast(4)
  assert.deepEqual(worker.suspects.running, 2)
  running()[1]?.end()
  await executions.atLeast(5)
  for (const execution of all) execution.end()
  await settled.atLeast(5)
  worker.wake()
  await runsNothingWaits(store)
  assert.deepEqual(worker.suspects, { queued: 0, running: 0 })
})

test('a job that waits for a model server may be claimed again before its return to the queue is confirmed', async (t) => {
  const confirmed = Promise.withResolvers<void>()
  const late = replacing('releaseWaiting', (store) => async (...returned) => {
    await store.releaseWaiting(...returned)
    worker.wake()
    await confirmed.promise
  })
  const { store, worker, executions, settled, job, run } = await startOne(t, 2, late)
  run.endWaiting()
  const [, second] = await executions.atLeast(2)
  const claim = { jobId: job.id, attempt: 2 }
  assert.deepEqual(worker.claims(), [claim])
  confirmed.resolve()
  await store.ping()
  assert.deepEqual([worker.claims(), worker.holds(claim), worker.running], [[claim], true, 1])
  second?.end()
  await settled.atLeast(1)
  assert.equal(await status(store, job), 'completed')
  await worker.drain(0)
})

test('draining lets executions end, claims no more, and releases what does not end in time', async (t) => {
  const { store, worker, enqueue, clock, executions, settled } = await start(t, 2)
  worker.wake()
  const jobs = [newJob(), newJob(), newJob()] as const
  const [, slow, waiting] = jobs
  await enqueue(...jobs)
  const [first] = await executions.atLeast(2)
  const drained = worker.drain(20_000)
  first?.end()
  await settled.atLeast(1)
  clock.advance(20_000)
  await drained
  assert.equal(executions.all.length, 2)
  const statuses = await Promise.all(jobs.map((job) => status(store, job)))
  assert.deepEqual(statuses, ['completed', 'assigned', 'pending'])
  const claimed = await claimQueued(store, 'node-b', clock.nowMs())
  assert.deepEqual(
    claimed.map(({ id, attempt, crashCount }) => [id, attempt, crashCount]),
    [
      [slow.id, 2, 0],
      [waiting.id, 1, 0],
    ],
  )
})

test('draining with nothing held ends at once, also the second time', async (t) => {
  const { worker } = await start(t)
  worker.wake()
  await Promise.all([worker.drain(20_000), worker.drain(20_000)])
})
