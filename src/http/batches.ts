/** SPEC §4.1: creates several jobs in one request, all of them or none. */
import type { FastifyInstance } from 'fastify'
import Type from 'typebox'
import { batchLengthProblem } from '../job/batch-limit.ts'
import type { PartLimits } from '../job/create-body.ts'
import { type BatchElement, batchElement } from '../job/request.ts'
import { earlierJobIds, elementsOf, type JobCreator } from './create-jobs.ts'
import { READ_AFTER_S, sendData } from './envelope.ts'
import { IGNORED_HEADER, ignoredHeader } from './ignored-header.ts'
import { lengthError } from './json-body.ts'
import { exampleBodies } from './openapi/examples.ts'
import { answers, errors, idempotencyHeader } from './openapi/schemas.ts'

export interface BatchRoutes {
  readonly creator: JobCreator
  readonly bodyBytes: number
  readonly limits: PartLimits
}

export function batchRoutes(app: FastifyInstance, { creator, bodyBytes, limits }: BatchRoutes): void {
  app.post<{ Body: BatchElement[] }>(
    '/api/v1/messages/batches',
    {
      bodyLimit: bodyBytes,
      config: { create: 'batch' },
      preValidation: (request, _reply, done) => {
        const { largeBody, body, caller } = request
        const problem = largeBody === null ? batchLengthProblem(body, caller.tier.maxBatchJobs) : null
        done(problem === null ? undefined : lengthError(problem, request))
      },
      attachValidation: true,
      schema: {
        operationId: 'createBatch',
        summary: 'Create several jobs',
        description:
          'Creates all of the jobs or none. The jobs run asynchronously: read each one by its ID, or give it a `callback`. `timeout` is only for single creates.',
        tags: ['Jobs'],
        security: [{ apiKey: [] }],
        headers: idempotencyHeader,
        body: Type.Array(batchElement, { title: 'CreateBatchRequest', examples: exampleBodies.batches }),
        response: { 202: answers.jobIds, ...errors(400, 401, 403, 413, 415, 429, 500, 503) },
      },
    },
    async (request, reply) => {
      const elements = elementsOf(request, limits)
      const admitted = await creator.admit(request, elements, false)
      const ids = earlierJobIds(await creator.accept(admitted, false)) ?? admitted.jobs.map(({ id }) => id)
      request.jobIds = ids
      const ignored = ignoredHeader(elements)
      if (ignored !== null) reply.header(IGNORED_HEADER, ignored)
      reply.header('retry-after', READ_AFTER_S)
      const message = ids.length === 1 ? '1 job is enqueued.' : `${ids.length} jobs are enqueued.`
      return sendData(reply, 202, message, JSON.stringify({ job_ids: ids }))
    },
  )
}
