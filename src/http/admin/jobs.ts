/** Routes that search and show the jobs of all accounts. Reading a job's contents is recorded in the audit log. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { readContentsAction } from '../../admin/actions/jobs.ts'
import { jobContentJson, jobDetailsView, jobSummaryView } from '../../admin/job-view.ts'
import { readJobId } from '../../job/job-id.ts'
import { MAX_SCANNED } from '../../store/pagination.ts'
import { sendData } from '../envelope.ts'
import { invalid, noSuchJob } from '../errors.ts'
import { EXAMPLE_JOB_ID } from '../openapi/examples.ts'
import { jobIdParam } from '../openapi/job-schemas.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminContext } from './admin-context.ts'
import { operatorHeader } from './operator-header.ts'
import {
  accountName,
  adminErrors,
  callbackDetails,
  callbackState,
  count,
  LIMIT,
  limit,
  modelName,
  orNull,
  paging,
  strict,
  unixTime,
  unixTimeOrNull,
  upstreamTrouble,
} from './shapes.ts'

const status = Type.Enum(['pending', 'assigned', 'completed', 'failed'], {
  description: 'The state of the job.',
})

const search = Type.Object(
  {
    account: Type.Optional(accountName),
    status: Type.Optional(status),
    model: Type.Optional(modelName),
    from: Type.Optional(
      Type.Number({
        minimum: 0,
        description: 'Created at this Unix time (seconds) or later.',
        examples: [1795219200],
      }),
    ),
    to: Type.Optional(
      Type.Number({
        minimum: 0,
        description: 'Created before this Unix time (seconds).',
        examples: [1795305600],
      }),
    ),
    before: Type.Optional(
      Type.String({
        description: 'Only jobs before this ID: the `next` of the previous page.',
        examples: [EXAMPLE_JOB_ID],
      }),
    ),
    limit,
  },
  strict,
)

const summary = {
  job_id: Type.String(),
  account: Type.String(),
  tier: Type.String(),
  model: Type.String(),
  status,
  created_at: unixTime('When it was accepted'),
  claimed_at: unixTimeOrNull('When a node last claimed it'),
  settled_at: unixTimeOrNull('When it ended'),
  attempts: count,
  error_code: orNull(Type.String()),
  target: orNull(Type.String()),
  input_tokens: orNull(count),
  output_tokens: orNull(count),
  cache_hit: Type.Boolean(),
}

const page = Type.Object({
  jobs: Type.Array(Type.Object({ ...summary, callback: orNull(callbackState) }), {
    description: 'Newest first.',
  }),
  ...paging,
})

const details = Type.Object({
  ...summary,
  response_format: Type.Enum(['text', 'json', 'json with schema']),
  deaths: Type.Integer({ description: 'The crash count: how many processes crashed while running the job.' }),
  timeline: Type.Array(
    Type.Object({
      at: unixTime('When'),
      what: Type.Enum(['accepted', 'assigned', 'call', 'settled', 'callback']),
      detail: orNull(Type.String()),
    }),
  ),
  waiting_for_upstream: orNull(
    Type.Object(
      { targets: Type.Array(Type.String()), ...upstreamTrouble },
      { description: 'Present while the job is queued and this node cannot call any of its targets.' },
    ),
  ),
  callback: orNull(callbackDetails),
})

const content = Type.Object({
  messages: Type.Array(Type.Unknown()),
  response_format: Type.Unknown(),
  result: Type.Union([Type.Object({ response_content: Type.Unknown() }), Type.Null()]),
  error: Type.Unknown(),
  receipt: Type.Unknown({
    description:
      'What was sent to the model server, and what it returned. Each entry of `calls` has the `target`, the result, the `roles` (`native`, `developer_as_system`, `merged_system` or `no_system`), the `json_mode` if JSON was requested (`json_schema_strict`, `json_schema`, `json_object`, `instruction` or `simulated`), the `instruction` that was added, if any, `finish_reason` (`length`) if the answer was cut off at a length limit, and `other_format` (`roles`, `json_mode` or `both`) if the server had rejected the previous call and the same conversation was sent in another format. Calls made by earlier versions lack `roles` and `json_mode`.',
  }),
})

type JobParam = { Params: { jobId: string } }

export function adminJobRoutes(
  app: FastifyInstance,
  { store, expiry, perform, logAction, waitingRoute }: AdminContext,
): void {
  app.get<{ Querystring: Static<typeof search> }>(
    '/jobs',
    {
      schema: {
        operationId: 'listJobs',
        summary: 'Search jobs',
        description: `Newest first. One search examines at most ${MAX_SCANNED} jobs and reports where it stopped.`,
        querystring: search,
        response: { 200: success('A page of jobs.', page), ...adminErrors(400) },
      },
    },
    async ({ query }, reply) => {
      const { account, status, model, from, to } = query
      const before = query.before === undefined ? undefined : readJobId(query.before)
      if (before === null) throw invalid('before: must be a job ID')
      const found = await store.searchJobs({
        ...(account !== undefined && { account }),
        ...(status !== undefined && { status }),
        ...(model !== undefined && { model }),
        ...(from !== undefined && { fromMs: from * 1000 }),
        ...(to !== undefined && { toMs: to * 1000 }),
        ...(before !== undefined && { beforeJobId: before }),
        limit: query.limit ?? LIMIT.default,
        expiry: expiry(),
      })
      const { jobs, complete, next } = found
      const data = { jobs: jobs.map(jobSummaryView), more: next !== null, complete, next }
      return sendData(reply, 200, `${jobs.length} jobs.`, JSON.stringify(data))
    },
  )
  app.get<JobParam>(
    '/jobs/:jobId',
    {
      schema: {
        operationId: 'getJob',
        summary: 'Show a job without its contents',
        description: 'Shows its timeline, its callback, and the model servers it is waiting for.',
        params: jobIdParam,
        response: { 200: success('The job.', details), ...adminErrors(404) },
      },
    },
    async (request, reply) => {
      const jobId = readJobId(request.params.jobId)
      const found = jobId === null ? null : await store.findJob(jobId, expiry())
      if (jobId === null || !found) throw noSuchJob()
      request.jobIds = [jobId]
      const callback = found.callback === null ? null : await store.findCallback(jobId)
      return sendData(reply, 200, 'The job.', JSON.stringify(jobDetailsView(found, callback, waitingRoute)))
    },
  )
  app.get<JobParam>(
    '/jobs/:jobId/content',
    {
      schema: {
        operationId: 'getJobContent',
        summary: 'Show the contents of a job; each access is logged',
        description:
          'Returns the conversation, the answer and the receipt. The access is recorded in the audit log before the contents are read.',
        headers: operatorHeader,
        params: jobIdParam,
        response: { 200: success('The contents.', content), ...adminErrors(400, 404) },
      },
    },
    async (request, reply) => {
      const jobId = readJobId(request.params.jobId)
      const found = jobId && (await perform(request, readContentsAction(store, jobId, expiry())))
      if (!jobId || !found) throw noSuchJob()
      request.jobIds = [jobId]
      logAction(request, 'look at contents', { job_id: jobId })
      return sendData(reply, 200, 'The contents of the job.', jobContentJson(found))
    },
  )
}
