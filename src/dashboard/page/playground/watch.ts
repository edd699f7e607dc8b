/** Sends a request of the playground through the API for callers, and follows its jobs until they have finished. */
import { type ApiError, admin, callWithKey, type Envelope } from '../api.ts'
import type { JobError, JobList, Status } from '../contract.ts'
import { pause, serverNow } from '../live.ts'
import { apiError } from '../resource.ts'
import type { Me } from './caller.ts'
import type { JobBody } from './draft.ts'

export interface WatchedJob {
  /** `jobId` is null until it is known. The response to a synchronous request arrives only when the job has finished. */
  readonly jobId: string | null
  readonly status: Status | 'sent'
  /** `seen` contains the milliseconds from the request until each status was first seen. */
  readonly seen: Readonly<Partial<Record<Status, number>>>
  readonly content: unknown
  readonly error: JobError | null
  readonly cacheHit: boolean
}

export interface Watching {
  readonly jobs: readonly WatchedJob[]
  readonly failure: ApiError | null
  readonly ended: boolean
  readonly ms: number
}

export interface WatchOptions {
  readonly key: string
  readonly me: Me
  readonly signal: AbortSignal
  readonly onChange: (watching: Watching) => void
}

interface Read {
  readonly status: Status | 'timeout'
  readonly job_id: string
  readonly result?: { readonly response_content: unknown } | null
  readonly error?: JobError | null
}

interface ReadJobs {
  readonly jobs: readonly Read[]
  readonly not_found: readonly string[]
}

const SENT: WatchedJob = {
  jobId: null,
  status: 'sent',
  seen: {},
  content: null,
  error: null,
  cacheHit: false,
}
const MIN_PAUSE_MS = 300
/** A quick answer contains the job ID, so the search for the job starts only after this delay. */
const FIRST_LOOKUP_MS = 250
const TIMEOUT_S = 120
const MAX_IDS = 100
const WAIT_S = 50
const BRIEF_WAIT_S = 1

class Run {
  readonly options: WatchOptions
  readonly #startMs = performance.now()
  #jobs: WatchedJob[]

  constructor(options: WatchOptions, count: number) {
    this.options = options
    this.#jobs = Array.from({ length: count }, () => SENT)
  }

  get jobs(): readonly WatchedJob[] {
    return this.#jobs
  }

  get ms(): number {
    return performance.now() - this.#startMs
  }

  update(index: number, change: Partial<WatchedJob>): void {
    this.#jobs = this.#jobs.map((job, at) => (at === index ? seenAt({ ...job, ...change }, this.ms) : job))
    this.report(false)
  }

  report(ended: boolean, failure: ApiError | null = null): void {
    if (this.options.signal.aborted) return
    this.options.onChange({ jobs: this.#jobs, failure, ended, ms: this.ms })
  }

  read(jobId: string): Promise<Envelope<Read>> {
    const { key, signal } = this.options
    return callWithKey<Read>(`/api/v1/messages/${jobId}`, key, { signal })
  }
}

export async function watchSingle(body: JobBody, options: WatchOptions): Promise<void> {
  const run = new Run(options, 1)
  run.report(false)
  await reportEnd(run, async () => {
    const answered = new AbortController()
    const lookup = lookUpJob(run, body.model, AbortSignal.any([options.signal, answered.signal]))
    const { key, signal } = options
    try {
      const path = '/api/v1/messages'
      const answer = await callWithKey<Read>(path, key, { body: { ...body, timeout: TIMEOUT_S }, signal })
      const { data, headers } = answer
      run.update(0, { jobId: data.job_id, cacheHit: headers.get('x-cache') === 'hit' })
      if (data.status === 'timeout') {
        answered.abort()
        await follow(run)
      } else run.update(0, stateOf(data))
    } finally {
      answered.abort()
      await lookup
    }
  })
}

export async function watchBatch(bodies: readonly JobBody[], options: WatchOptions): Promise<void> {
  const run = new Run(options, bodies.length)
  run.report(false)
  await reportEnd(run, async () => {
    const { key, signal } = options
    const path = '/api/v1/messages/batches'
    const { data } = await callWithKey<{ job_ids: string[] }>(path, key, { body: bodies, signal })
    for (const [index, jobId] of data.job_ids.entries()) run.update(index, { jobId, status: 'pending' })
    await follow(run)
  })
}

async function reportEnd(run: Run, work: () => Promise<void>): Promise<void> {
  try {
    await work()
    run.report(true)
  } catch (error) {
    run.report(true, apiError(error))
  }
}

/** Uses at most half of the tier's read rate. While a job is pending, reads wait only briefly, so that `assigned` is seen. */
async function follow(run: Run): Promise<void> {
  const { me, key, signal } = run.options
  const pauseMs = Math.max(MIN_PAUSE_MS, 60_000 / (me.limits.reads_per_minute / 2))
  for (;;) {
    const open = run.jobs.filter(isOpen)
    if (open.length === 0) return
    const ids = open.flatMap(({ jobId }) => jobId ?? []).slice(0, MAX_IDS)
    const waitS = open.some(({ status }) => status === 'pending') ? BRIEF_WAIT_S : WAIT_S
    const path = `/api/v1/messages?ids=${ids.join()}&wait=${waitS}&wait_for=any`
    const { data, headers } = await callWithKey<ReadJobs>(path, key, { signal })
    const [missing] = data.not_found
    // Reading the missing job alone results in an error that explains why it is missing.
    if (missing !== undefined) await run.read(missing)
    for (const job of data.jobs) {
      run.update(
        run.jobs.findIndex(({ jobId }) => jobId === job.job_id),
        stateOf(job),
      )
    }
    const retryAfterMs = Number(headers.get('retry-after') ?? 0) * 1000
    await pause(Math.max(pauseMs, retryAfterMs), signal)
    signal.throwIfAborted()
  }
}

/** Jobs whose IDs are not known yet cannot be cancelled. */
export async function cancelOpen({ jobs }: Watching, key: string): Promise<void> {
  const open = jobs.filter(isOpen).flatMap(({ jobId }) => jobId ?? [])
  await Promise.all(
    open.map((jobId) =>
      callWithKey(`/api/v1/messages/${jobId}/cancel`, key, { method: 'POST' }).catch((error: unknown) => {
        // The job has finished in the meantime, which `follow` will show.
        if (apiError(error).status !== 409) throw error
      }),
    ),
  )
}

/** Finds the job ID before the response comes. If several new jobs match, none of them is used. */
async function lookUpJob(run: Run, model: string, signal: AbortSignal): Promise<void> {
  const { account } = run.options.me
  const from = String(Math.floor(serverNow()) - 1)
  const search = new URLSearchParams({ account, model, from, limit: '5' })
  const known = new Set<string>()
  try {
    const before = await admin<JobList>(`/jobs?${search}`, { signal })
    await pause(FIRST_LOOKUP_MS, signal)
    for (const { job_id, settled_at } of before.jobs) if (settled_at !== null) known.add(job_id)
    let jobId: string | undefined
    while (!signal.aborted) {
      if (jobId === undefined) {
        const { jobs } = await admin<JobList>(`/jobs?${search}`, { signal })
        const candidates = jobs.filter(({ job_id }) => !known.has(job_id))
        if (candidates.length === 1) jobId = candidates[0]?.job_id
      }
      if (jobId !== undefined) {
        const { data } = await run.read(jobId)
        if (signal.aborted) return
        if (data.status === 'pending' || data.status === 'assigned')
          run.update(0, { jobId, status: data.status })
        // The next status comes with the response.
        if (data.status !== 'pending') return
      }
      await pause(MIN_PAUSE_MS, signal)
    }
  } catch {
    // A failed search is harmless, because the response will contain the job ID.
  }
}

function stateOf({ status, result, error }: Read): Partial<WatchedJob> {
  return {
    status: status === 'timeout' ? 'assigned' : status,
    content: result?.response_content ?? null,
    error: error ?? null,
  }
}

function seenAt(job: WatchedJob, ms: number): WatchedJob {
  if (job.status === 'sent' || job.seen[job.status] !== undefined) return job
  return { ...job, seen: { ...job.seen, [job.status]: ms } }
}

export function isOpen({ status }: WatchedJob): boolean {
  return status !== 'completed' && status !== 'failed'
}
