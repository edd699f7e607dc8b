/** What became of callbacks, and sending them again. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { replayCallback, replayFailedCallbacks } from '../../admin/actions/jobs.ts'
import { callbackDetailsView, callbackView } from '../../admin/callback-view.ts'
import { isJobId } from '../../job/job-id.ts'
import { sendData } from '../envelope.ts'
import { callbackInProgress, invalid, noSuchCallback } from '../errors.ts'
import { exampleBodies } from '../openapi/examples.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminParts } from './admin-parts.ts'
import { operatorHeader } from './operator.ts'
import {
  accountName,
  adminErrors,
  callback,
  callbackDetails,
  callbackState,
  count,
  jobIdParam,
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
      Type.String({ description: 'Only those of jobs before this id: `next` of the page before.' }),
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

export function adminCallbackRoutes(app: FastifyInstance, parts: AdminParts): void {
  const { store } = parts
  app.get<{ Querystring: Static<typeof filter> }>(
    '/callbacks',
    {
      schema: {
        summary: 'Callbacks, newest job first',
        querystring: filter,
        response: { 200: success('A page of callbacks.', page), ...adminErrors(400) },
      },
    },
    async ({ query }, reply) => {
      const { state, account, before } = query
      if (before !== undefined && !isJobId(before)) throw invalid('before: must be a job id')
      const { found, complete, next } = await store.searchCallbacks({
        ...(state !== undefined && { state }),
        ...(account !== undefined && { account }),
        ...(before !== undefined && { beforeJobId: before }),
        limit: query.limit ?? LIMIT.default,
      })
      const data = { callbacks: found.map(callbackView), more: next !== null, complete, next }
      return sendData(reply, 200, `${data.callbacks.length} callbacks.`, JSON.stringify(data))
    },
  )
  app.get<JobParam>(
    '/callbacks/:jobId',
    {
      schema: {
        summary: 'A callback with each of its attempts',
        params: jobIdParam,
        response: { 200: success('The callback.', callbackDetails), ...adminErrors(404) },
      },
    },
    async (request, reply) => {
      const found = await store.findCallback(request.params.jobId)
      if (!found) throw noSuchCallback()
      request.jobIds = [found.jobId]
      return sendData(reply, 200, 'The callback.', JSON.stringify(callbackDetailsView(found)))
    },
  )
  replayRoutes(app, parts)
}

function replayRoutes(app: FastifyInstance, { store, expiry, act, noteAct }: AdminParts): void {
  app.post<JobParam>(
    '/callbacks/:jobId/replay',
    {
      schema: {
        summary: 'Have a callback sent again now, whatever its state',
        headers: operatorHeader,
        params: jobIdParam,
        response: {
          200: success('It is due now.', Type.Object({ replayed: Type.Literal(true) })),
          ...adminErrors(400, 404, 409, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { jobId } = request.params
      if (!isJobId(jobId)) throw noSuchCallback()
      const replay = await act(request, await replayCallback(store, jobId, expiry()))
      if (replay === 'unknown') throw noSuchCallback()
      if (replay === 'under way') throw callbackInProgress()
      request.jobIds = [jobId]
      noteAct(request, 'replay a callback', { job_id: jobId })
      return sendData(reply, 200, 'The callback is due now.', '{"replayed":true}')
    },
  )
  app.post<{ Body: Static<typeof failedFilter> }>(
    '/callbacks/replay-failed',
    {
      preValidation: (request, _reply, done) => {
        if (request.body === undefined) request.body = {}
        done()
      },
      schema: {
        summary: 'Have all callbacks that failed for good sent again',
        headers: operatorHeader,
        body: { ...failedFilter, examples: exampleBodies.replays },
        response: {
          200: success('They are due now.', Type.Object({ replayed: count })),
          ...adminErrors(400, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { account } = request.body
      const replayed = await act(request, replayFailedCallbacks(store, account, expiry()))
      noteAct(request, 'replay failed callbacks', { account, callbacks: replayed })
      return sendData(reply, 200, `${replayed} callbacks are due now.`, JSON.stringify({ replayed }))
    },
  )
}
