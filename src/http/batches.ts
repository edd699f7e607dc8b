/** SPEC §4.1: creates several jobs in one request, all of them or none. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import Type from 'typebox'
import { type BatchElement, batchElement } from '../job/request.ts'
import type { Element } from '../queue/admission.ts'
import type { JobCreator } from './create-jobs.ts'
import { sendData } from './envelope.ts'
import { batchTooLong, invalid } from './errors.ts'
import { parseExactly } from './json-body.ts'
import { exampleBodies } from './openapi/examples.ts'
import { answers, errors, idempotencyHeader } from './openapi/schemas.ts'

export interface BatchRoutes {
  readonly creator: JobCreator
  readonly bodyBytes: number
}

export function batchRoutes(app: FastifyInstance, { creator, bodyBytes }: BatchRoutes): void {
  app.post<{ Body: BatchElement[] }>(
    '/api/v1/messages/batches',
    {
      bodyLimit: bodyBytes,
      config: { keepBytes: true },
      preValidation: (request, _reply, done) => done(lengthError(request) ?? undefined),
      schema: {
        summary: 'Create several jobs',
        description:
          'Creates all of the jobs or none. They run asynchronously: read each by its id, or give it a `callback`. `timeout` belongs to single creates.',
        tags: ['Jobs'],
        security: [{ apiKey: [] }],
        headers: idempotencyHeader,
        body: Type.Array(batchElement, { examples: exampleBodies.batches }),
        response: { 202: answers.jobIds, ...errors(400, 401, 403, 413, 415, 429, 500, 503) },
      },
    },
    async (request, reply) => {
      const admitted = await creator.admit(request, elementsOf(request), false)
      const earlierIds = await creator.accept(admitted, false)
      const ids = earlierIds ?? admitted.jobs.map(({ id }) => id)
      request.jobIds = ids
      const message = ids.length === 1 ? '1 job is enqueued.' : `${ids.length} jobs are enqueued.`
      return sendData(reply, 202, message, JSON.stringify({ job_ids: ids }))
    },
  )
}

/** The length is checked before the fields: 403 over the tier's limit, 400 for an empty batch. */
function lengthError({ body, caller }: FastifyRequest): Error | null {
  if (!Array.isArray(body)) {
    return invalid('the body must be an array of job creation objects; for one job use POST /api/v1/messages')
  }
  if (body.length === 0) return invalid('the body must contain at least one job')
  const { name, maxBatchJobs } = caller.tier
  return body.length > maxBatchJobs ? batchTooLong(name, maxBatchJobs, body.length) : null
}

/** Callback payloads, if there are any, are parsed a second time so that no number loses a digit. */
function elementsOf(request: FastifyRequest<{ Body: BatchElement[] }>): Element[] {
  const { body, bodyBytes } = request
  const hasPayload = body.some(({ callback }) => callback?.callback_payload !== undefined)
  const exact = hasPayload && bodyBytes ? (parseExactly(bodyBytes) as BatchElement[]) : null
  return body.map((object, index) => {
    const payload = exact?.[index]?.callback?.callback_payload
    return { object, payloadJson: payload === undefined ? null : JSON.stringify(payload) }
  })
}
