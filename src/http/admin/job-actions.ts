/** Routes for admin actions on jobs: cancel and delete. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { cancelJobAction, deleteJobAction } from '../../admin/actions/jobs.ts'
import { readJobId } from '../../job/job-id.ts'
import { sendData } from '../envelope.ts'
import { jobEnded, jobNotEnded, noSuchJob, notScrubbed } from '../errors.ts'
import { jobIdParam } from '../openapi/job-schemas.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminContext } from './admin-context.ts'
import { operatorHeader } from './operator-header.ts'
import { adminErrors, scrubQuery } from './shapes.ts'

type JobParam = { Params: { jobId: string } }

export function jobActionRoutes(app: FastifyInstance, context: AdminContext): void {
  cancelRoute(app, context)
  deleteRoute(app, context)
}

function cancelRoute(
  app: FastifyInstance,
  { store, expiry, perform, logAction, onCancelled }: AdminContext,
): void {
  app.post<JobParam>(
    '/jobs/:jobId/cancel',
    {
      schema: {
        operationId: 'cancelJob',
        summary: 'Cancel a queued or running job: it fails with `cancelled`',
        description:
          'The callback of the job is sent. If the job runs on this node, its call to the model server has been aborted by the time this route responds. On another node, the call is aborted within a second.',
        headers: operatorHeader,
        params: jobIdParam,
        response: {
          200: success('The job was cancelled.', Type.Object({ cancelled: Type.Literal(true) })),
          ...adminErrors(400, 404, 409, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const jobId = readJobId(request.params.jobId)
      if (jobId === null) throw noSuchJob()
      const result = await perform(request, cancelJobAction(store, jobId, expiry().nowMs))
      if (result === 'unknown') throw noSuchJob()
      if (result === 'ended before') throw jobEnded()
      await onCancelled(jobId)
      request.jobIds = [jobId]
      logAction(request, 'cancel a job', { job_id: jobId })
      return sendData(reply, 200, 'The job was cancelled.', '{"cancelled":true}')
    },
  )
}

function deleteRoute(app: FastifyInstance, { store, perform, logAction }: AdminContext): void {
  app.delete<JobParam & { Querystring: Static<typeof scrubQuery> }>(
    '/jobs/:jobId',
    {
      schema: {
        operationId: 'deleteJob',
        summary: 'Permanently delete a finished job with its contents, cached response and callback',
        description:
          'Deletes the job and, unless `scrub` is `false`, removes its data from the disk as far as the database can. An unfinished job must be cancelled first.',
        headers: operatorHeader,
        params: jobIdParam,
        querystring: scrubQuery,
        response: {
          200: success('The job was deleted.', Type.Object({ deleted: Type.Literal(true) })),
          ...adminErrors(400, 404, 409, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const jobId = readJobId(request.params.jobId)
      const scrub = request.query.scrub !== 'false'
      if (jobId === null) throw noSuchJob()
      const result = await perform(request, deleteJobAction(store, { jobId, scrub }))
      if (result.kind === 'unknown') throw noSuchJob()
      if (result.kind === 'not ended') throw jobNotEnded()
      request.jobIds = [jobId]
      logAction(request, 'delete a job', { job_id: jobId, scrub })
      if (result.notScrubbed !== null) throw notScrubbed(result.notScrubbed)
      return sendData(reply, 200, 'The job was deleted.', '{"deleted":true}')
    },
  )
}
