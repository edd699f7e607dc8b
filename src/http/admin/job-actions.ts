/** Stepping in on jobs: ending one before its time, and deleting one for good. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { cancelJob, deleteJob } from '../../admin/actions/jobs.ts'
import { isJobId } from '../../job/job-id.ts'
import { sendData } from '../envelope.ts'
import { jobEnded, jobNotEnded, noSuchJob, notScrubbed } from '../errors.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminParts } from './admin-parts.ts'
import { operatorHeader } from './operator.ts'
import { adminErrors, jobIdParam, scrubQuery } from './shapes.ts'

type JobParam = { Params: { jobId: string } }

export function jobActRoutes(app: FastifyInstance, parts: AdminParts): void {
  cancelRoute(app, parts)
  deleteRoute(app, parts)
}

function cancelRoute(app: FastifyInstance, { store, expiry, act, noteAct, onCancelled }: AdminParts): void {
  app.post<JobParam>(
    '/jobs/:jobId/cancel',
    {
      schema: {
        summary: 'End a job that waits or runs: it has failed with `cancelled`',
        description:
          'Its callback is sent. A run on this node has ended, with its call to the model server, when this is answered; one on another node ends within a second.',
        headers: operatorHeader,
        params: jobIdParam,
        response: {
          200: success('It is cancelled.', Type.Object({ cancelled: Type.Literal(true) })),
          ...adminErrors(400, 404, 409, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { jobId } = request.params
      if (!isJobId(jobId)) throw noSuchJob()
      const result = await act(request, await cancelJob(store, jobId, expiry()))
      if (result === 'unknown') throw noSuchJob()
      if (result === 'ended before') throw jobEnded()
      await onCancelled()
      request.jobIds = [jobId]
      noteAct(request, 'cancel a job', { job_id: jobId })
      return sendData(reply, 200, 'The job is cancelled.', '{"cancelled":true}')
    },
  )
}

function deleteRoute(app: FastifyInstance, { store, expiry, act, noteAct }: AdminParts): void {
  app.delete<JobParam & { Querystring: Static<typeof scrubQuery> }>(
    '/jobs/:jobId',
    {
      schema: {
        summary: 'Delete a job that has ended, with its contents, kept answer and callback',
        headers: operatorHeader,
        params: jobIdParam,
        querystring: scrubQuery,
        response: {
          200: success('It is deleted.', Type.Object({ deleted: Type.Literal(true) })),
          ...adminErrors(400, 404, 409, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { jobId } = request.params
      const scrub = request.query.scrub !== 'false'
      if (!isJobId(jobId)) throw noSuchJob()
      const result = await act(request, await deleteJob(store, { jobId, scrub }, expiry()))
      if (result.kind === 'unknown') throw noSuchJob()
      if (result.kind === 'not ended') throw jobNotEnded()
      request.jobIds = [jobId]
      noteAct(request, 'delete a job', { job_id: jobId, scrub })
      if (result.notScrubbed !== null) throw notScrubbed(result.notScrubbed)
      return sendData(reply, 200, 'The job is deleted.', '{"deleted":true}')
    },
  )
}
