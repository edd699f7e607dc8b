/** Requests reruns of jobs, in small steps, and reports the result for each job. */
import type { JobSearch, JobSummary } from '../store/job-search-store.ts'
import type { EndedRerun, RequestedRerun } from '../store/rerun-store.ts'
import type { ActionTools } from './action.ts'

/** At most this many reruns are requested together, so that other writes do not wait for long. */
const JOBS_PER_STEP = 100
/** How often to check whether a server has created the reruns, and how long to wait without any progress. */
const LOOK_MS = 200
const PATIENCE_MS = 10_000

export interface RerunOptions {
  readonly withCallback: boolean
  readonly again: boolean
  /** Whether jobs that are reruns themselves may be rerun. */
  readonly ofReruns: boolean
}

export interface RerunSearch extends Omit<JobSearch, 'limit' | 'expiry'> {
  readonly errorCode?: string
}

/** The results for the jobs that a search found. */
export interface FoundReruns {
  readonly made: readonly EndedRerun[]
  readonly refused: readonly EndedRerun[]
  /** Reruns that were requested, but that no server has created yet. */
  readonly waiting: number
  /** Jobs that already have a rerun or a request for one. Unless `again` is set, reruns are skipped, too. */
  readonly skipped: number
  /** The `beforeJobId` to continue with; null at the end. */
  readonly next: string | null
}

/** Requests a rerun of up to `limit` of these jobs. Returns those that were requested, and those of them that have ended. */
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
    await new Promise<void>((resolve) => clock.after(LOOK_MS, resolve))
  }
  return { requested, ended }
}

/**
 * Reruns the finished jobs that a search finds, newest first. It ends when `limit` reruns were requested, when no server creates
 * them, or after the last job. Unless `again` is set, it skips reruns that have failed: they are the newest jobs, so a second
 * call would repeat them instead of continuing.
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
