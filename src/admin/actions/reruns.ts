/** Declares the admin actions that rerun finished jobs: one job, or the jobs that a search finds. */

import { wait } from '../../clock.ts'
import { isJobId, JOB_ID } from '../../job/job-id.ts'
import type { JobSearch, JobSummary } from '../../store/job-search-store.ts'
import type { EndedRerun, RequestedRerun } from '../../store/rerun-store.ts'
import { Type } from '../../typed-schema.ts'
import { type ActionTools, adminAction } from '../action.ts'
import { accountName, count, defined, modelName, next, strict, textOrNull } from '../fields.ts'
import { refusals } from '../refusals.ts'

const MOST = 10_000
const DEFAULT_LIMIT = 1000
/** This is the last second with ten digits, in the year 2286. Times in milliseconds have more digits, so they are rejected. */
const LAST_TIME = 9_999_999_999

const howFields = {
  with_callback: Type.Optional(
    Type.Boolean({ description: 'Also send the callback of the original job for the new one.' }),
  ),
  again: Type.Optional(
    Type.Boolean({
      description: 'Also rerun jobs that were rerun before and, in a search, reruns.',
    }),
  ),
}
interface How {
  readonly with_callback?: boolean
  readonly again?: boolean
}

const optionsOf = ({ with_callback = false, again = false }: How, ofReruns: boolean) => ({
  withCallback: with_callback,
  again,
  ofReruns,
})

const time = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: LAST_TIME, description, examples: [1795219200] }))

const PAYS =
  'The account pays for it as for any job: it counts in its usage, caps and quotas, but not in its jobs per minute.'
const SERVERS_MAKE = 'Running servers make it within about two seconds, or as soon as one starts.'

const rerunJob = adminAction({
  what: 'rerun a job',
  about: 'job',
  fields: Type.Object(howFields, { ...strict, examples: [{}, { with_callback: true }] }),
  details: ({ with_callback, again }) => defined({ with_callback, again }),
  run: async ({ jobId, ...how }, tools) => {
    const found = await tools.store.findJob(jobId, await tools.expiry())
    if (found === null) return refusals.noSuchJob(jobId)
    if (found.settledAtMs === null) return refusals.notRerun(jobId, 'It has not finished.')
    const { requested, ended } = await rerunJobs([jobId], 1, optionsOf(how, true), tools)
    if (requested.length === 0) return refusals.notRerun(jobId, beforeText(found.reruns.at(-1)))
    const [end] = ended
    if (end?.refusal) return refusals.notRerun(jobId, end.refusal)
    return { rerunId: end?.rerunId ?? null }
  },
  outcome: ({ rerunId }) => (rerunId === null ? 'requested' : `rerun as ${rerunId}`),
  log: (_input, { rerunId }) => ({ rerun_id: rerunId }),
  route: {
    method: 'post',
    path: '/jobs/:jobId/rerun',
    operationId: 'rerunJob',
    summary: 'Rerun a finished job: create a new one with the same request',
    description: `The new job has the same model, messages, format, options, metadata and priority; \`complete_within\` counts from now. It is never answered from the response cache. ${PAYS}`,
    success: 'The new job.',
    data: Type.Object({
      job_id: textOrNull('The new job; null if it could not be created within 10 s. It is created later.'),
      rerun_of: Type.String(),
    }),
    conflicts: true,
    answer: ({ rerunId }, { jobId }) => ({
      message: rerunId === null ? `The rerun was requested. ${SERVERS_MAKE}` : 'The job was rerun.',
      data: { job_id: rerunId, rerun_of: jobId },
    }),
  },
  print: ({ rerunId }, { jobId }) => ({
    json: { job_id: rerunId, rerun_of: jobId },
    text:
      rerunId === null
        ? `The rerun of job ${jobId} is requested. No server has made it yet. ${SERVERS_MAKE}`
        : `Job ${jobId} was rerun as ${rerunId}.`,
  }),
})

function beforeText(rerunId: string | undefined): string {
  const before = rerunId === undefined ? 'A rerun of it is requested.' : `It was rerun as ${rerunId}.`
  return `${before} To rerun it once more, pass again (--again).`
}

const rerunFoundJobs = adminAction({
  what: 'rerun jobs',
  about: null,
  fields: Type.Object(
    {
      account: Type.Optional(accountName),
      error_code: Type.Optional(
        Type.String({
          pattern: /^\w{1,64}$/.source,
          description: 'Only jobs that failed with this code.',
          examples: ['model_error'],
        }),
      ),
      model: Type.Optional(modelName),
      status: Type.Optional(
        Type.Enum(['failed', 'completed'], { description: 'The status of the jobs; `failed` if absent.' }),
      ),
      from: time('Only jobs created at this Unix time (seconds) or later.'),
      to: time('Only jobs created before this Unix time (seconds).'),
      before: Type.Optional(
        Type.String({
          pattern: JOB_ID.source,
          description: 'Only jobs before this ID: the `next` of an earlier request.',
        }),
      ),
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: MOST,
          default: DEFAULT_LIMIT,
          description: 'The maximum number of jobs to rerun.',
          examples: [100],
        }),
      ),
      ...howFields,
    },
    { ...strict, minProperties: 1, examples: [{ account: 'acme', error_code: 'model_error' }] },
  ),
  details: (input) => input,
  check: ({ account, error_code, model, status, from }) =>
    [account, error_code, model, status, from].every((one) => one === undefined) ? refusals.noFilter() : null,
  run: ({ account, error_code, model, status = 'failed', from, to, before, limit, ...how }, tools) => {
    const search: RerunSearch = {
      ...defined({ account, model, errorCode: error_code, beforeJobId: before }),
      status,
      ...(from !== undefined && { fromMs: from * 1000 }),
      ...(to !== undefined && { toMs: to * 1000 }),
    }
    return rerunFound(search, limit ?? DEFAULT_LIMIT, optionsOf(how, how.again === true), tools)
  },
  outcome: ({ made, skipped, refused, waiting }) =>
    `${made.length} rerun, ${skipped} skipped, ${refused.length} refused, ${waiting} waiting`,
  log: ({ account }, { made, skipped, refused }) => ({
    account,
    jobs: made.length,
    skipped,
    refused: refused.length,
  }),
  route: {
    method: 'post',
    path: '/jobs/rerun',
    operationId: 'rerunJobs',
    summary: 'Rerun the finished jobs that a search finds, newest first',
    description: `Creates a new job with the same request for each job that was not rerun before and is not a rerun, up to \`limit\`. At least one of \`account\`, \`error_code\`, \`model\`, \`status\` and \`from\` is required. ${PAYS} To continue, send the request again; with \`again\`, pass \`next\` as \`before\`.`,
    success: 'What became of the jobs.',
    data: Type.Object({
      jobs: Type.Array(
        Type.Object({ job_id: Type.String({ description: 'The new job.' }), rerun_of: Type.String() }),
      ),
      skipped: Type.Integer({ minimum: 0, description: 'Jobs that were rerun before, or are reruns.' }),
      refused: Type.Array(
        Type.Object({ reason: Type.String(), jobs: count, example_job_id: Type.String() }),
        {
          description: 'Jobs that could not be rerun, by reason.',
        },
      ),
      waiting: Type.Integer({
        minimum: 0,
        description: 'Reruns that no server has created within 10 s of the request.',
      }),
      next: next('before'),
    }),
    answer: (reruns) => ({ message: `${reruns.made.length} jobs were rerun.`, data: viewOf(reruns) }),
  },
  command: {
    name: 'jobs rerun',
    description: 'on the database: run finished jobs again, as new jobs',
    arguments: { jobId: ['[job-id]', 'the job to rerun'] },
    options: {
      account: ['--account <name>', 'rerun the failed jobs of this account'],
      error_code: ['--error-code <code>', 'rerun jobs that failed with this code, such as model_error'],
      model: ['--model <name>', 'rerun the failed jobs of this model'],
      status: ['--status <status>', 'rerun jobs with this status (default: failed)'],
      from: ['--from <time>', 'rerun jobs that were created at this Unix time or later'],
      to: ['--to <time>', 'only jobs that were created before this Unix time'],
      before: ['--before <job-id>', 'only jobs before this one'],
      limit: ['--limit <count>', `rerun at most this many (default: ${DEFAULT_LIMIT})`],
      with_callback: ['--with-callback', 'also send the callbacks of the original jobs'],
      again: ['--again', 'also rerun reruns, and jobs that were rerun before'],
    },
    help: `
A rerun is a new job with the same request. ${PAYS.replace(': ', ':\n')}
A running server creates it within about two seconds. Filters skip reruns, and jobs that were rerun before, so you can repeat
the command. --again includes both: to rerun only what failed again, pass the time of the first command as --from.`,
    examples: [
      'parley jobs rerun 019a5d3e-…',
      'parley jobs rerun --account acme --error-code model_error --from $(date -d yesterday +%s)',
    ],
    choose: ({ jobId, with_callback: _callback, again: _again, ...filter }) => {
      const given = Object.values(filter).some((value) => value !== undefined)
      if (jobId !== undefined) return given ? 'Pass either a job ID or a filter.' : rerunJob
      if (filter.before !== undefined && !isJobId(String(filter.before))) return '--before: must be a job ID.'
      return null
    },
  },
  print: (reruns) => ({ json: viewOf(reruns), text: textOf(reruns) }),
})

function viewOf({ made, refused, skipped, waiting, next }: FoundReruns) {
  const byReason = Map.groupBy(refused, ({ refusal }) => refusal ?? '')
  return {
    jobs: made.map(({ jobId, rerunId }) => ({ job_id: rerunId, rerun_of: jobId })),
    skipped,
    refused: [...byReason].map(([reason, [first, ...others]]) => ({
      reason,
      jobs: others.length + 1,
      example_job_id: first?.jobId ?? '',
    })),
    waiting,
    next,
  }
}

function textOf(reruns: FoundReruns): string {
  const { made, skipped, waiting, next } = reruns
  const lines = [`${made.length} ${made.length === 1 ? 'job was' : 'jobs were'} rerun.`]
  if (skipped > 0) lines.push(`${skipped} skipped: they were rerun before, or are reruns.`)
  for (const { reason, jobs, example_job_id } of viewOf(reruns).refused) {
    lines.push(`${jobs} not rerun, such as ${example_job_id}: ${reason}`)
  }
  if (waiting > 0) {
    lines.push(`${waiting} requested: no server has made them yet. ${SERVERS_MAKE.replace('it', 'them')}`)
  }
  if (next !== null) {
    lines.push(
      `There may be more. Run the command again to continue; with --again, also pass --before ${next}.`,
    )
  }
  return lines.join('\n')
}

/** A step is one transaction, which is short so that other writes do not wait for long. */
const JOBS_PER_STEP = 100
/** The database is checked this often for reruns that servers have created. */
const LOOK_MS = 200
const PATIENCE_MS = 10_000

interface RerunOptions {
  readonly withCallback: boolean
  readonly again: boolean
  /** `ofReruns` is false if jobs that are reruns are skipped. */
  readonly ofReruns: boolean
}

interface RerunSearch extends Omit<JobSearch, 'limit' | 'expiry'> {
  readonly errorCode?: string
}

interface FoundReruns {
  readonly made: readonly EndedRerun[]
  readonly refused: readonly EndedRerun[]
  /** Requested reruns that no server has created yet count here. */
  readonly waiting: number
  /** Jobs that already have a rerun or a request for one count here. Without `again`, jobs that are reruns count, too. */
  readonly skipped: number
  /** The next search continues before this job ID, which is null after the last job. */
  readonly next: string | null
}

/** Requests at most `limit` reruns. Returns the requests, and the results of those that a server has handled. */
async function rerunJobs(
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
 * Stops when `limit` reruns were requested, no server creates them, or no jobs are left. Without `again`, jobs that are reruns
 * are skipped. They are the newest jobs, so a second call would otherwise repeat failed reruns instead of continuing with older
 * jobs.
 */
async function rerunFound(
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

export const rerunActions = [rerunJob, rerunFoundJobs] as const
