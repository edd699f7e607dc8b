/** Routes that list and show callbacks, and replay them. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { replayCallbackAction, replayFailedCallbacksAction } from '../../admin/actions/callbacks.ts'
import { callbackDetailsView, callbackView } from '../../admin/callback-view.ts'
import { readJobId } from '../../job/job-id.ts'
import { MAX_SCANNED } from '../../store/pagination.ts'
import { sendData } from '../envelope.ts'
import { callbackInProgress, invalid, noSuchCallback } from '../errors.ts'
import { fillMissingBody } from '../json-body.ts'
import { EXAMPLE_JOB_ID, exampleBodies } from '../openapi/examples.ts'
import { jobIdParam } from '../openapi/job-schemas.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminContext } from './admin-context.ts'
import { operatorHeader } from './operator-header.ts'
import {
  accountName,
  adminErrors,
  callback,
  callbackDetails,
  callbackState,
  count,
  LIMIT,
  limit,
  paging,
  strict,
} from './shapes.ts'

const filter = Type.Object(
  {
    state: Type.Optional(callbackState),
    account: Type.Optional(accountName),
    before: Type.Optional(
      Type.String({
        description: 'Only callbacks of jobs before this ID: the `next` of the previous page.',
        examples: [EXAMPLE_JOB_ID],
      }),
    ),
    limit,
  },
  strict,
)

const page = Type.Object({
  callbacks: Type.Array(Type.Object(callback), { description: 'Newest job first.' }),
  ...paging,
})

const failedFilter = Type.Object({ account: Type.Optional(accountName) }, strict)

type JobParam = { Params: { jobId: string } }

export function adminCallbackRoutes(app: FastifyInstance, context: AdminContext): void {
  const { store } = context
  app.get<{ Querystring: Static<typeof filter> }>(
    '/callbacks',
    {
      schema: {
        operationId: 'listCallbacks',
        summary: 'List callbacks, newest job first',
        description: `One search examines at most ${MAX_SCANNED} callbacks and reports where it stopped.`,
        querystring: filter,
        response: { 200: success('A page of callbacks.', page), ...adminErrors(400) },
      },
    },
    async ({ query }, reply) => {
      const { state, account } = query
      const before = query.before === undefined ? undefined : readJobId(query.before)
      if (before === null) throw invalid('before: must be a job ID')
      const { items, complete, next } = await store.searchCallbacks({
        ...(state !== undefined && { state }),
        ...(account !== undefined && { account }),
        ...(before !== undefined && { beforeJobId: before }),
        limit: query.limit ?? LIMIT.default,
      })
      const data = { callbacks: items.map(callbackView), more: next !== null, complete, next }
      return sendData(reply, 200, `${data.callbacks.length} callbacks.`, JSON.stringify(data))
    },
  )
  app.get<JobParam>(
    '/callbacks/:jobId',
    {
      schema: {
        operationId: 'getCallback',
        summary: 'Show a callback with all of its attempts',
        description:
          'Lists the time, status, duration, error and first 1 KiB of the response of each attempt. The values of the callback headers are never shown.',
        params: jobIdParam,
        response: { 200: success('The callback.', callbackDetails), ...adminErrors(404) },
      },
    },
    async (request, reply) => {
      const jobId = readJobId(request.params.jobId)
      const found = jobId === null ? null : await store.findCallback(jobId)
      if (!found) throw noSuchCallback()
      request.jobIds = [found.jobId]
      return sendData(reply, 200, 'The callback.', JSON.stringify(callbackDetailsView(found)))
    },
  )
  replayRoutes(app, context)
}

function replayRoutes(app: FastifyInstance, { store, expiry, perform, logAction }: AdminContext): void {
  app.post<JobParam>(
    '/callbacks/:jobId/replay',
    {
      schema: {
        operationId: 'replayCallback',
        summary: 'Replay a callback: send it again now, regardless of its state',
        description: 'The callback gets the full number of attempts again, and keeps its `webhook-id`.',
        headers: operatorHeader,
        params: jobIdParam,
        response: {
          200: success('The callback is due now.', Type.Object({ replayed: Type.Literal(true) })),
          ...adminErrors(400, 404, 409, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const jobId = readJobId(request.params.jobId)
      if (jobId === null) throw noSuchCallback()
      const replay = await perform(request, replayCallbackAction(store, jobId, expiry()))
      if (replay === 'unknown') throw noSuchCallback()
      if (replay === 'in progress') throw callbackInProgress()
      request.jobIds = [jobId]
      logAction(request, 'replay a callback', { job_id: jobId })
      return sendData(reply, 200, 'The callback is due now.', '{"replayed":true}')
    },
  )
  app.post<{ Body: Static<typeof failedFilter> }>(
    '/callbacks/replay-failed',
    {
      preValidation: fillMissingBody,
      schema: {
        operationId: 'replayFailedCallbacks',
        summary: 'Replay all callbacks that have failed permanently',
        description:
          'Replays the callbacks of one account, or of all accounts if the body does not name one.',
        headers: operatorHeader,
        body: { ...failedFilter, examples: exampleBodies.replays },
        response: {
          200: success('The callbacks are due now.', Type.Object({ replayed: count })),
          ...adminErrors(400, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { account } = request.body
      const replayed = await perform(request, replayFailedCallbacksAction(store, account, expiry()))
      logAction(request, 'replay failed callbacks', { account, callbacks: replayed })
      return sendData(reply, 200, `${replayed} callbacks are due now.`, JSON.stringify({ replayed }))
    },
  )
}
