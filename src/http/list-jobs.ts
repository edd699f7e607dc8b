/** GET /api/v1/messages lists the caller's jobs without their contents. With `ids`, `read-jobs.ts` answers. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { jobIdMs, leastJobId, readJobId } from '../job/job-id.ts'
import { type Include, type MetadataById, usageView } from '../job/job-record.ts'
import { metadataFilter } from '../job/request.ts'
import { Counts } from '../sharing/counts.ts'
import { CALLBACK_STATES } from '../store/callback-store.ts'
import type { JobPage, JobSearch, JobSummary } from '../store/job-search-store.ts'
import type { Store } from '../store/store.ts'
import { type Static, Type } from '../typed-schema.ts'
import { sendData } from './envelope.ts'
import { invalid, tooManyLists } from './errors.ts'
import { EXAMPLE_JOB_ID, exampleResponses } from './openapi/examples.ts'
import {
  includeParameter,
  job,
  jobId,
  jobStatus,
  metadata as metadataSchema,
  usage,
} from './openapi/job-schemas.ts'
import { errors, RATE_HEADERS, success, WAIT_AFTER } from './openapi/schemas.ts'
import { convertQuery } from './query.ts'
import { type JobReader, MAX_IDS, type ReadMany, waitParameter } from './read-jobs.ts'

const listedJob = Type.Object(
  {
    status: jobStatus,
    job_id: jobId,
    created_at: Type.Integer({ description: 'When the job was accepted (Unix seconds).' }),
    ended_at: Type.Union([Type.Integer(), Type.Null()], {
      description: 'When the job finished (Unix seconds); null until then.',
    }),
    model: Type.String({ description: 'The requested model.' }),
    error_code: Type.Union([Type.String(), Type.Null()], {
      description: 'The `code` of the error; null unless the job has failed.',
    }),
    callback: Type.Union([Type.Enum([...CALLBACK_STATES]), Type.Null()], {
      description: 'The state of the callback; null if the job has no callback, and until the job finishes.',
    }),
    usage: Type.Optional(usage),
    metadata: Type.Optional(metadataSchema),
  },
  { title: 'JobSummary', description: 'A job without its contents.' },
)

const jobPage = Type.Object(
  {
    jobs: Type.Array(listedJob, { description: 'Newest first.' }),
    next: Type.Union([Type.String(), Type.Null()], {
      description:
        'Pass this value as `after` to get the next page. Null only on the last page, however short a page is.',
    }),
  },
  { title: 'JobPage', description: 'The response without `ids`.' },
)

const jobsById = Type.Object(
  {
    jobs: Type.Array(job, { description: 'In the order of the IDs.' }),
    not_found: Type.Array(jobId, {
      description: 'IDs of jobs that do not exist, have expired, or belong to another account.',
    }),
    more: Type.Array(jobId, {
      description: 'IDs of jobs that did not fit into the response; request them again.',
    }),
  },
  { title: 'JobsById', description: 'The response with `ids`.' },
)

const jobsAnswer = success(
  'A page of the list, or the jobs with the requested IDs.',
  Type.Union([jobPage, jobsById]),
  {
    headers: { ...RATE_HEADERS, ...WAIT_AFTER },
    examples: exampleResponses.jobs,
  },
)

export interface ListJobsRoute {
  readonly store: Pick<Store, 'searchJobs'>
  readonly reader: Pick<JobReader, 'expiry' | 'metadataOf'>
  readonly readMany: ReadMany
}

const LIMIT = { most: 100, default: 20 } as const
/** A node builds at most this many lists of an account at the same time. */
const LISTS_AT_ONCE = 2

const query = Type.Object(
  {
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMIT.most,
        default: LIMIT.default,
        description: 'The maximum number of jobs per page.',
        examples: [50],
      }),
    ),
    after: Type.Optional(
      Type.String({
        description: 'The `next` of the previous page.',
        examples: [EXAMPLE_JOB_ID],
      }),
    ),
    status: Type.Optional(
      Type.Enum(['pending', 'assigned', 'completed', 'failed'], {
        description: 'Only jobs with this status.',
      }),
    ),
    metadata: metadataFilter,
    ids: Type.Optional(
      Type.Array(Type.String(), {
        minItems: 1,
        maxItems: MAX_IDS,
        description: `The jobs to read: up to ${MAX_IDS} job IDs, separated by commas.`,
        examples: [[EXAMPLE_JOB_ID, '019a5d3e-8f43-7001-9a1c-2f54b7a1c0de']],
      }),
    ),
    include: includeParameter,
    wait: waitParameter,
    wait_for: Type.Optional(
      Type.Enum(['all', 'any'], {
        default: 'all',
        description: 'Whether to wait until all of the jobs have finished, or any.',
      }),
    ),
  },
  { additionalProperties: false },
)
type Query = Static<typeof query>

const schema = {
  operationId: 'listMessages',
  summary: 'List your jobs, or read several',
  description: `Without \`ids\`: lists your jobs, newest first, without their contents. A page can be short or empty although more jobs follow: continue until \`next\` is null. Counts as ten reads; each node builds at most ${LISTS_AT_ONCE} lists of an account at a time. With \`ids\`: returns these jobs in the same order, up to 8 MiB; \`more\` has the IDs of jobs that did not fit. Counts as one read.`,
  tags: ['Jobs'],
  security: [{ apiKey: [] }],
  querystring: query,
  response: { 200: jobsAnswer, ...errors(400, 401, 429, 500, 503) },
}

export function listJobsRoute(app: FastifyInstance, { store, reader, readMany }: ListJobsRoute): void {
  const lists = new Counts<string>()

  async function list(account: string, search: Omit<JobSearch, 'account'>): Promise<JobPage> {
    if (lists.of(account) >= LISTS_AT_ONCE) throw tooManyLists(LISTS_AT_ONCE)
    lists.add(account, 1)
    try {
      return await store.searchJobs({ ...search, account })
    } finally {
      lists.add(account, -1)
    }
  }

  app.get<{ Querystring: Query }>(
    '/api/v1/messages',
    {
      config: { limitReads: (request) => !asksForIds(request) },
      preValidation: convertQuery,
      schema,
    },
    async (request, reply) => {
      const {
        limit,
        after,
        status,
        metadata: pairs,
        ids,
        wait,
        wait_for: until,
        include = [],
      } = request.query
      if (ids !== undefined) {
        if (limit !== undefined || after !== undefined || status !== undefined) {
          throw invalid('ids: cannot be combined with limit, after or status')
        }
        if (pairs !== undefined) throw invalid('ids: cannot be combined with metadata')
        return readMany(request, reply, { ids, waitS: wait ?? 0, until: until ?? 'all', include })
      }
      if (wait !== undefined || until !== undefined) throw invalid('wait: needs ids')
      const beforeJobId = after === undefined ? null : readJobId(after)
      if (after !== undefined && beforeJobId === null)
        throw invalid('after: must be the next value of a page')
      const page = await list(request.caller.account, {
        limit: limit ?? LIMIT.default,
        expiry: reader.expiry(),
        ...(status !== undefined && { status }),
        ...(pairs !== undefined && { metadata: pairs }),
        ...(beforeJobId !== null && { beforeJobId }),
      })
      const metadata = await reader.metadataOf(
        include,
        page.jobs.map(({ id }) => id),
      )
      const data = {
        jobs: page.jobs.map((job) => jobSummary(job, include, metadata)),
        next: cursorOf(page, beforeJobId),
      }
      const message = page.jobs.length === 1 ? '1 job.' : `${page.jobs.length} jobs.`
      return sendData(reply, 200, message, JSON.stringify(data))
    },
  )
}

function asksForIds({ query: given }: FastifyRequest): boolean {
  return typeof given === 'object' && given !== null && 'ids' in given
}

function jobSummary(job: JobSummary, include: readonly Include[], metadata: MetadataById) {
  const { id, status, model, createdAtMs, settledAtMs, errorCode, callback, usage } = job
  return {
    status,
    job_id: id,
    created_at: Math.floor(createdAtMs / 1000),
    ended_at: settledAtMs === null ? null : Math.floor(settledAtMs / 1000),
    model,
    error_code: errorCode,
    callback,
    ...(include.includes('usage') && { usage: usage && usageView(status, usage) }),
    ...(include.includes('metadata') && { metadata: JSON.parse(metadata.get(id) ?? '{}') }),
  }
}

/**
 * A search may stop at a job of another account, whose ID must stay secret. The cursor is then the time of that job, or the
 * caller's own last job if that is older.
 */
function cursorOf({ jobs, complete, next }: JobPage, beforeJobId: string | null): string | null {
  if (next === null || complete) return next
  const time = leastJobId(jobIdMs(next) + 1)
  const last = jobs.at(-1)?.id
  const cursor = last !== undefined && last < time ? last : time
  // If thousands of jobs were created in one millisecond, a cursor with only the time would return the same page again. So the
  // cursor is then the ID at which the search stopped.
  return beforeJobId === null || cursor < beforeJobId ? cursor : next
}
