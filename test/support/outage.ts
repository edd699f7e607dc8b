/** Makes jobs, advances the clock in steps and measures times, for tests of model server outages. */
import assert from 'node:assert/strict'
import { enqueued } from '../http/expect.ts'
import type { Stage } from '../http/stage.ts'
import type { ModelServerForTests } from '../model-server.ts'
import { type Answer, job, type Parley } from '../parley.ts'

export const MESSAGES = '/api/v1/messages'
export const BATCHES = '/api/v1/messages/batches'
export const STEP_MS = 250
/** A check of a model server has a longer timeout than this step, so it can be answered between two steps. */
export const LONG_STEP_MS = 3500
const ROUND_TRIPS = 3
const MOST_IDS = 100
const ROUND_TRIPS_OF_A_JOB = 24

/** With one slot, the jobs run one after the other. */
export const ONE_SLOT = { upstreams: { openai: { max_concurrency: 1, api_key_env: null } } }

let made = 0
/** All jobs differ, so that none is answered from the cache. */
export const numbered = (count: number) =>
  Array.from({ length: count }, () => job({ messages: [{ role: 'user', content: `job ${made++}` }] }))

export async function createJobs(parley: Parley, key: string, count: number): Promise<string[]> {
  return await createBatches({ parley }, key, numbered(count))
}

function chunks<T>(all: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, n) => all.slice(n * size, (n + 1) * size))
}

/**
 * Advances the clock in steps until the condition holds. Returns how many milliseconds that took by the clock. Between the
 * steps, requests to the server, its model server and the database let everything in transit arrive.
 */
export async function untilTrue(
  t: { signal: AbortSignal },
  { clock, parley }: Pick<Stage, 'clock' | 'parley'>,
  condition: () => boolean | Promise<boolean>,
  stepMs = STEP_MS,
): Promise<number> {
  const startMs = clock.nowMs()
  while (!(await condition())) {
    t.signal.throwIfAborted()
    clock.advance(stepMs)
    for (let n = 0; n < ROUND_TRIPS; n++) await parley.get('/readyz')
  }
  return clock.nowMs() - startMs
}

export async function metric(parley: Parley, line: string): Promise<number> {
  const { text } = await parley.get('/metrics')
  const found = text.split('\n').find((one) => one.startsWith(`${line} `))
  return Number(found?.slice(line.length + 1))
}

export const running = (parley: Parley) => metric(parley, 'parley_jobs_running')

/** Reads a hundred jobs per request. */
export async function readJobs(
  parley: Parley,
  key: string,
  ids: readonly string[],
): Promise<readonly Answer['body'][]> {
  const jobs: Answer['body'][] = []
  for (const some of chunks(ids, MOST_IDS)) {
    const { body } = await parley.get(`${MESSAGES}?ids=${some.join(',')}`, key)
    assert.deepEqual([body.data.not_found, body.data.more], [[], []])
    jobs.push(...body.data.jobs)
  }
  return jobs
}

export async function statuses(
  parley: Parley,
  key: string,
  ids: readonly string[],
): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { status } of await readJobs(parley, key, ids)) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

export const completions = (models: ModelServerForTests) => models.completions().length

/**
 * The returned condition for `untilTrue` holds when all of these jobs have finished. It does not read finished jobs again, and
 * while a job is open it reads only that one, because each step would otherwise read all jobs.
 */
export function allEnded(parley: Parley, key: string, ids: readonly string[]): () => Promise<boolean> {
  let left = ids
  return async () => {
    for (let count = 1; left.length > 0; count = MOST_IDS) {
      const some = await readJobs(parley, key, left.slice(0, count))
      const open = some.filter(({ status }) => status !== 'completed' && status !== 'failed')
      left = [...open.map(({ job_id }) => String(job_id)), ...left.slice(count)]
      if (open.length > 0) return false
    }
    return true
  }
}

export async function allComplete(
  stage: Stage,
  t: { signal: AbortSignal },
  key: string,
  ids: readonly string[],
): Promise<number> {
  const tookMs = await untilTrue(t, stage, allEnded(stage.parley, key, ids))
  assert.deepEqual(await statuses(stage.parley, key, ids), { completed: ids.length })
  return tookMs
}

export const withContent = (content: string, over: Readonly<Record<string, unknown>> = {}) =>
  job({ messages: [{ role: 'user', content }], ...over })

/**
 * Makes a condition for `untilTrue` whose measured time contains only waits. Creating, claiming, calling and storing follow one
 * another, so the condition makes several requests between the steps of the clock.
 */
export const arrived =
  ({ parley }: Pick<Stage, 'parley'>, condition: () => boolean) =>
  async (): Promise<boolean> => {
    for (let n = 0; n < ROUND_TRIPS_OF_A_JOB && !condition(); n++) await parley.get('/readyz')
    return condition()
  }

export async function createAndWait(
  t: { signal: AbortSignal },
  stage: Stage,
  key: string,
  body: ReturnType<typeof job>,
): Promise<{ readonly answer: Answer; readonly ms: number }> {
  let answer: Answer | null = null
  void stage.parley.post(MESSAGES, body, key).then((got) => {
    answer = got
  })
  const ms = await untilTrue(
    t,
    stage,
    arrived(stage, () => answer !== null),
  )
  assert.ok(answer)
  return { answer, ms }
}

export async function createBatches(
  { parley }: Pick<Stage, 'parley'>,
  key: string,
  bodies: readonly ReturnType<typeof job>[],
): Promise<string[]> {
  const ids: string[] = []
  for (const jobs of chunks(bodies, 30)) {
    ids.push(...enqueued(await parley.post(BATCHES, jobs, key), jobs.length))
  }
  return ids
}
