/** SPEC §4.2: reading a job, at once or as soon as it has finished. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { readJobId } from '../job/job-id.ts'
import { jobRecordJson } from '../job/job-record.ts'
import { sendData } from './envelope.ts'
import { noSuchJob } from './errors.ts'
import { askAgainLater, type JobAwaiter, waitParameter } from './job-awaiter.ts'
import { hasEnded, type JobReader } from './job-reader.ts'
import { jobIdParam } from './openapi/job-schemas.ts'
import { answers, errors } from './openapi/schemas.ts'
import { convertQueryNumbers } from './query-numbers.ts'

export interface ReadJobRoute {
  readonly reader: JobReader
  readonly awaiter: JobAwaiter
}

export const STATUS_MESSAGES = {
  pending: 'The job is queued.',
  assigned: 'The job is being processed.',
  completed: 'The job is completed.',
  failed: 'The job has failed.',
} as const

const query = Type.Object({ wait: waitParameter })

const schema = {
  operationId: 'getMessage',
  summary: 'Read a job',
  description:
    'Returns the current state of the job; with `wait`, as soon as the job has finished. Either way, this counts as one read.',
  tags: ['Jobs'],
  security: [{ apiKey: [] }],
  params: jobIdParam,
  querystring: query,
  response: { 200: answers.read, ...errors(400, 401, 404, 429, 500, 503) },
}

export function readJobRoute(app: FastifyInstance, { reader, awaiter }: ReadJobRoute): void {
  app.get<{ Params: { jobId: string }; Querystring: Static<typeof query> }>(
    '/api/v1/messages/:jobId',
    { config: { limitReads: true }, preValidation: convertQueryNumbers, schema },
    async (request, reply) => {
      const jobId = readJobId(request.params.jobId)
      const { wait = 0 } = request.query
      if (jobId === null) throw noSuchJob()
      let record = await reader.read(request, jobId)
      if (!record) throw noSuchJob()
      request.jobIds = [jobId]
      if (wait > 0 && !hasEnded(record)) {
        const haveEnded = async () => {
          const [state] = await reader.states(request, [jobId])
          return !state || hasEnded(state)
        }
        const wasCut = await awaiter.wait(request, reply, {
          jobIds: [jobId],
          until: 'all',
          waitS: wait,
          haveEnded,
        })
        record = await reader.read(request, jobId)
        if (!record) throw noSuchJob()
        if (wasCut && !hasEnded(record)) askAgainLater(reply)
      }
      return sendData(reply, 200, STATUS_MESSAGES[record.status], jobRecordJson(record))
    },
  )
}
