/** Requests reruns of jobs in small steps, and reports the result for each job. */
import { wait } from '../clock.ts'
import type { JobSearch, JobSummary } from '../store/job-search-store.ts'
import type { EndedRerun, RequestedRerun } from '../store/rerun-store.ts'
import type { ActionTools } from './action.ts'

/** How many reruns are requested together. It is few, so that other writes do not wait for long. */
const JOBS_PER_STEP = 100
/** How often to check whether a server has created the reruns, and how long to wait without progress, in milliseconds. */
const LOOK_MS = 200
const PATIENCE_MS = 10_000

export interface RerunOptions {
  readonly withCallback: boolean
  readonly again: boolean
  /** Whether to rerun jobs that are reruns themselves. */
  readonly ofReruns: boolean
}

export interface RerunSearch extends Omit<JobSearch, 'limit' | 'expiry'> {
  readonly errorCode?: string
}

/** The results of reruns of jobs that a search found. */
export interface FoundReruns {
  readonly made: readonly EndedRerun[]
  readonly refused: readonly EndedRerun[]
  /** How many reruns were requested but not created yet. */
  readonly waiting: number
  /**
   * How many jobs were skipped because they already have a rerun or a request for one or, unless `again` is set, because they
   * are reruns themselves.
   */
  readonly skipped: number
  /** The `beforeJobId` from which to continue; null after the last job. */
  readonly next: string | null
}

/** Requests reruns of up to `limit` of these jobs. Returns the requested reruns, and the results of those that are done. */
export async function rerunJobs(
  jobIds: readonly string[],
  limit: number,
  options: RerunOptions,
  { store, clock, makeReruns }: ActionTools,
): Promise<{ readonly requested: readonly RequestedRerun[]; readonly ended: readonly EndedRerun[] }> {
  const nowMs = clock.nowMs()
  const requested = await store.requestReruns({ ...options, jobIds, limit, nowMs })
  if (requested.length === 0) return { requested, ended: [] }
  await makeReruns?.()
  const ids = requested.map(({ id }) => id)
  let ended: readonly EndedRerun[] = []
  for (let waitedMs = 0; waitedMs <= PATIENCE_MS; waitedMs += LOOK_MS) {
    const before = ended.length
    ended = await store.endedReruns(ids)
    if (ended.length === ids.length) break
    if (ended.length > before) waitedMs = 0
    await wait(clock, LOOK_MS)
  }
  return { requested, ended }
}

/**
 * Reruns the finished jobs that a search finds, newest first. It stops when `limit` reruns were requested, when no server
 * creates them, or after the last job. Unless `again` is set, it skips jobs that are reruns: they are the newest jobs, so a
 * second call would otherwise rerun the reruns that failed instead of continuing with older jobs.
 */
export async function rerunFound(
  { errorCode, ...search }: RerunSearch,
  limit: number,
  options: RerunOptions,
  tools: ActionTools,
): Promise<FoundReruns> {
  const made: EndedRerun[] = []
  const refused: EndedRerun[] = []
  let left = limit
  let skipped = 0
  let next = search.beforeJobId ?? null
  for (;;) {
    const page = await tools.store.searchJobs({
      ...search,
      ...(next !== null && { beforeJobId: next }),
      limit: JOBS_PER_STEP,
      expiry: await tools.expiry(),
    })
    const ids = page.jobs.filter((job) => hasEndedWith(job, errorCode)).map(({ id }) => id)
    const { requested, ended } = await rerunJobs(ids, left, options, tools)
    for (const one of ended) (one.rerunId === null ? refused : made).push(one)
    left -= requested.length
    next = left > 0 ? page.next : (requested.at(-1)?.jobId ?? page.next)
    const looked = ids.filter((id) => next === null || id >= next)
    skipped += looked.length - requested.length
    const waiting = requested.length - ended.length
    if (next === null || left === 0 || waiting > 0) return { made, refused, waiting, skipped, next }
  }
}

function hasEndedWith({ settledAtMs, errorCode }: JobSummary, wanted: string | undefined): boolean {
  return settledAtMs !== null && (wanted === undefined || errorCode === wanted)
}
