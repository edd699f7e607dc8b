/** GET /api/v1/messages: the caller's own jobs, newest first, without their contents; or the jobs with the given IDs. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import Type, { type Static } from 'typebox'
import { jobIdMs, leastJobId, readJobId } from '../job/job-id.ts'
import { Counts } from '../sharing/counts.ts'
import type { JobPage, JobSearch, JobSummary } from '../store/job-search-store.ts'
import type { Store } from '../store/store.ts'
import { sendData } from './envelope.ts'
import { invalid, tooManyLists } from './errors.ts'
import { waitParameter } from './job-awaiter.ts'
import type { JobReader } from './job-reader.ts'
import { EXAMPLE_JOB_ID } from './openapi/examples.ts'
import { jobsAnswer } from './openapi/list-schemas.ts'
import { errors } from './openapi/schemas.ts'
import { convertQueryNumbers } from './query-numbers.ts'
import { MAX_IDS, type ReadMany } from './read-many.ts'

export interface ListJobsRoute {
  readonly store: Pick<Store, 'searchJobs'>
  readonly reader: Pick<JobReader, 'expiry'>
  readonly readMany: ReadMany
}

const LIMIT = { most: 100, default: 20 } as const
/** Maximum concurrent lists of one account on this node. */
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
    ids: Type.Optional(
      Type.Array(Type.String(), {
        minItems: 1,
        maxItems: MAX_IDS,
        description: `Reads specific jobs instead of listing all: up to ${MAX_IDS} job IDs, separated by commas.`,
        examples: [[EXAMPLE_JOB_ID, '019a5d3e-8f43-7001-9a1c-2f54b7a1c0de']],
      }),
    ),
    wait: waitParameter,
    wait_for: Type.Optional(
      Type.Enum(['all', 'any'], {
        default: 'all',
        description: 'Whether `wait` ends when all of the jobs have finished, or any of them.',
      }),
    ),
  },
  { additionalProperties: false },
)
type Query = Static<typeof query>

const schema = {
  operationId: 'listMessages',
  summary: 'List your jobs, or read several',
  description: `Without \`ids\`: lists your jobs, newest first, without their contents. A page may be short or even empty although there are more jobs: continue until \`next\` is null. A list counts as ten reads, and an account may have ${LISTS_AT_ONCE} in progress. With \`ids\`: returns the same objects as single reads, in the order of the IDs, up to 8 MiB; \`more\` has the IDs of jobs that did not fit. With \`wait\`, responds as soon as all of the jobs have finished, or any of them. This counts as one read, and each unfinished job as one wait.`,
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
      preValidation: [splitIds, convertQueryNumbers],
      schema,
    },
    async (request, reply) => {
      const { limit, after, status, ids, wait, wait_for: until } = request.query
      if (ids !== undefined) {
        if (limit !== undefined || after !== undefined || status !== undefined) {
          throw invalid('ids: cannot be combined with limit, after or status')
        }
        return readMany(request, reply, { ids, waitS: wait ?? 0, until: until ?? 'all' })
      }
      if (wait !== undefined || until !== undefined) throw invalid('wait: needs ids')
      const beforeJobId = after === undefined ? null : readJobId(after)
      if (after !== undefined && beforeJobId === null)
        throw invalid('after: must be the next value of a page')
      const page = await list(request.caller.account, {
        limit: limit ?? LIMIT.default,
        expiry: reader.expiry(),
        ...(status !== undefined && { status }),
        ...(beforeJobId !== null && { beforeJobId }),
      })
      const data = { jobs: page.jobs.map(jobSummary), next: cursorOf(page, beforeJobId) }
      const message = page.jobs.length === 1 ? '1 job.' : `${page.jobs.length} jobs.`
      return sendData(reply, 200, message, JSON.stringify(data))
    },
  )
}

function asksForIds({ query: given }: FastifyRequest): boolean {
  return typeof given === 'object' && given !== null && 'ids' in given
}

/** Commas separate the ids; a parameter that is repeated is joined. */
function splitIds(
  { query: given }: FastifyRequest<{ Querystring: Query }>,
  _reply: unknown,
  done: () => void,
) {
  const { ids } = given
  if (ids !== undefined) given.ids = [ids].flat().flatMap((text) => text.split(','))
  done()
}

function jobSummary({ id, status, model, createdAtMs, settledAtMs, errorCode, callback }: JobSummary) {
  return {
    status,
    job_id: id,
    created_at: Math.floor(createdAtMs / 1000),
    ended_at: settledAtMs === null ? null : Math.floor(settledAtMs / 1000),
    model,
    error_code: errorCode,
    callback,
  }
}

/**
 * The cursor of the next page. A search that reached its limit usually ends at a job of another account, whose ID must not be
 * revealed. The cursor is then the time of that job, unless the caller's own last job is nearer.
 */
function cursorOf({ jobs, complete, next }: JobPage, beforeJobId: string | null): string | null {
  if (next === null || complete) return next
  const time = leastJobId(jobIdMs(next) + 1)
  const last = jobs.at(-1)?.id
  const cursor = last !== undefined && last < time ? last : time
  // With thousands of jobs in one millisecond, the time alone would lead to the same page again.
  return beforeJobId === null || cursor < beforeJobId ? cursor : next
}
