/** Tests waits on a server for which the test decides when each job ends. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Clock } from './clock.ts'
import type { Job } from './job.ts'
import type { JobsRoute } from './jobs-route.ts'
import { leveledLogger } from './logger.ts'
import { ReadBudget } from './read-budget.ts'
import { type WaitParts, waitForAll, waitForEach } from './wait.ts'

/** In a wait for more than a hundred jobs, a job may be reported this many milliseconds late. */
const LATE_MS = 15_000

const jobId = (number: number) => `01890a5d-ac96-774b-bcce-${number.toString(16).padStart(12, '0')}`

/** The pauses of this clock end at once and advance the time. */
class SteppedClock implements Clock {
  ms = 0

  nowMs(): number {
    return this.ms
  }

  steadyMs(): number {
    return this.ms
  }

  after(ms: number, callback: () => void): () => void {
    const endsMs = this.ms + ms
    let isCancelled = false
    void setImmediate().then(() => {
      if (isCancelled) return
      this.ms = Math.max(this.ms, endsMs)
      callback()
    })
    return () => {
      isCancelled = true
    }
  }
}

/** @param endsMs when each job ends; the server answers a read when one of its jobs has ended, or when the wait is over */
function server(endsMs: ReadonlyMap<string, number>) {
  const clock = new SteppedClock()
  let reads = 0
  const route: Pick<JobsRoute, 'isMissing' | 'read'> = {
    isMissing: false,
    read: async (ids, { waitS, waitFor }, { signal }) => {
      reads += 1
      await setImmediate()
      signal?.throwIfAborted()
      const ends = ids.map((id) => endsMs.get(id) ?? Number.POSITIVE_INFINITY)
      const readyMs = waitFor === 'any' ? Math.min(...ends) : Math.max(...ends)
      clock.ms = Math.max(clock.ms, Math.min(readyMs, clock.ms + waitS * 1000))
      const job = (id: string, at: number) =>
        ({ job_id: id, status: (ends[at] ?? 0) <= clock.ms ? 'completed' : 'pending' }) as Job
      return { jobs: ids.map(job), not_found: [], more: [], waitS, retryAfterS: undefined }
    },
  }
  const parts: WaitParts = {
    route: route as JobsRoute,
    call: {},
    budget: new ReadBudget(clock),
    clock,
    logger: leveledLogger(undefined, 'off'),
    read: () => assert.fail('the server can wait'),
    learnBudget: () => assert.fail('the server can wait'),
  }
  return { clock, parts, reads: () => reads }
}

/** Asserts that no job is reported late. Returns the number of reads. */
async function waitForThose(endsMs: ReadonlyMap<string, number>): Promise<number> {
  const { clock, parts, reads } = server(endsMs)
  let ended = 0
  for await (const { job_id } of waitForEach([...endsMs.keys()], {}, parts)) {
    ended += 1
    const lateMs = clock.ms - (endsMs.get(job_id) ?? 0)
    assert.ok(lateMs <= LATE_MS, `job ${ended} of ${endsMs.size} came ${lateMs} ms after its end`)
  }
  assert.equal(ended, endsMs.size)
  return reads()
}

const jobs = (count: number, endOf: (at: number) => number) =>
  new Map(Array.from({ length: count }, (_, at) => [jobId(at), endOf(at)]))

test('of more than a hundred jobs, those behind the first hundred are not late', async () => {
  // The first hundred jobs do not end during this wait.
  await waitForThose(jobs(180, (at) => (at < 100 ? 600_000 : at * 3000)))
  // In these two waits, the first hundred jobs end one after the other.
  await waitForThose(jobs(200, (at) => (at < 100 ? at * 4000 : 0)))
  await waitForThose(jobs(200, (at) => (at < 100 ? at * 1000 : 50_000)))
  // In the last case, the jobs in front end last.
  await waitForThose(jobs(250, (at) => 250_000 - at * 1000))
})

test('jobs that end one by one are read together', async () => {
  assert.ok((await waitForThose(jobs(90, (at) => at * 100))) <= 20)
})

test('an ID that is given twice is reported and returned twice', async () => {
  const { parts } = server(jobs(2, (at) => at * 1000))
  const reported: [string, number][] = []
  const onEnded = ({ job_id }: Job, index: number) => void reported.push([job_id, index])
  const [one, two] = [jobId(0), jobId(1)]
  const ended = await waitForAll([two, one, two], { onEnded }, parts)
  assert.deepEqual(
    ended.map(({ job_id }) => job_id),
    [two, one, two],
  )
  assert.deepEqual(reported, [
    [one, 1],
    [two, 0],
    [two, 2],
  ])
})

test('an error of the IDs ends the wait, though jobs are open', async () => {
  const { clock, parts } = server(jobs(1, () => 600_000))
  async function* ids() {
    yield jobId(0)
    await setImmediate()
    throw new Error('no more IDs')
  }
  const waiting = async () => {
    for await (const _ of waitForEach(ids(), {}, parts)) assert.fail('no job has ended')
  }
  await assert.rejects(waiting(), /no more IDs/)
  assert.ok(clock.ms < 60_000, `after ${clock.ms} ms`)
})
