/** Requests reruns of jobs, in small steps, and reports what became of each. */
import type { JobSearch, JobSummary } from '../store/job-search-store.ts'
import type { EndedRerun, RequestedRerun } from '../store/rerun-store.ts'
import type { ActionTools } from './action.ts'

/** Jobs whose reruns are requested together; other writes wait no longer than for this many. */
const JOBS_PER_STEP = 100
/** How often to look whether a server has made them, and how long to wait without any progress. */
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

/** What became of the jobs that a search found. */
export interface FoundReruns {
  readonly made: readonly EndedRerun[]
  readonly refused: readonly EndedRerun[]
  /** Requested, but not made: no server has taken them yet. */
  readonly waiting: number
  /** Had a rerun before, or one was requested; or, unless `again`, are reruns. */
  readonly skipped: number
  /** The `beforeJobId` to continue with; null at the end. */
  readonly next: string | null
}

/** Requests a rerun of up to `limit` of these jobs, and returns those that were requested, and those that ended. */
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
 * Reruns the finished jobs that a search finds, newest first, until `limit` of them were requested, a server takes none, or all
 * have been looked at. Reruns that fail again are not found, unless `again`: otherwise a second call would repeat them, which are
 * the newest, and not continue with the others.
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
