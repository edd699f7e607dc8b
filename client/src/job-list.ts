/** Lists the account's jobs: one page, or all of them. */
import { ApiPromise, type WithResponse } from './api-promise.ts'
import type { CallOptions, Exchange } from './exchange.ts'
import type { Job, JobPage, JobSummary } from './job.ts'

export interface ListOptions extends CallOptions {
  /** Lists only jobs with this status. */
  readonly status?: Job['status'] | undefined
  /** Lists only jobs whose metadata contains all of these pairs. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
  /** A page has at most this many jobs: 1 to 100, 20 if absent. */
  readonly limit?: number | undefined
  /** Continues after the page that returned this `next`. */
  readonly after?: string | undefined
}

/**
 * Await it to get one page, or iterate over it to get all jobs. Further pages are read when they are needed.
 *
 * ```ts
 * const { jobs, next } = await parley.messages.list({ status: 'failed' })
 * for await (const job of parley.messages.list()) console.log(job.job_id, job.status)
 * ```
 */
export class JobList extends ApiPromise<JobPage> implements AsyncIterable<JobSummary> {
  readonly #nextPage: (after: string) => Promise<JobPage>

  constructor(firstPage: Promise<WithResponse<JobPage>>, nextPage: (after: string) => Promise<JobPage>) {
    super(firstPage)
    this.#nextPage = nextPage
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<JobSummary, void, undefined> {
    let page: JobPage = await this
    for (;;) {
      yield* page.jobs
      if (page.next === null) return
      page = await this.#nextPage(page.next)
    }
  }
}

export function listJobs(exchange: Exchange, options: ListOptions): JobList {
  const { status, metadata = {}, limit, after: first, ...call } = options
  const page = (after: string | undefined) => {
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries({ status, limit, after })) {
      if (value !== undefined) query.set(name, String(value))
    }
    for (const [key, value] of Object.entries(metadata)) query.set(`metadata[${key}]`, value)
    const text = query.toString()
    const path = `/api/v1/messages${text && `?${text}`}`
    return exchange.send<JobPage>({ ...call, method: 'GET', path })
  }
  return new JobList(page(first), async (after) => (await page(after)).data)
}
