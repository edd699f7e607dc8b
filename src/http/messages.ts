/**
 * Serves the two routes that create jobs: POST /api/v1/messages creates a job and waits for its answer (SPEC §4.3), and POST
 * /api/v1/messages/batches creates several, all or none (SPEC §4.1).
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { wholeMs } from '../clock.ts'
import { batchLengthProblem, type PartLimits } from '../job/create-body.ts'
import { TIMEOUT_S } from '../job/field-rules.ts'
import { jobRecordJson, type MetadataById } from '../job/job-record.ts'
import { type BatchElement, batchElement, type SingleCreate, singleCreate } from '../job/request.ts'
import type { PendingResponse, WaitEnd } from '../queue/pending-responses.ts'
import { type Static, Type } from '../typed-schema.ts'
import { type CreateRequests, earlierJobIds, elementsOf, endOf } from './create-jobs.ts'
import { READ_AFTER_S, sendData } from './envelope.ts'
import { lengthError } from './json-body.ts'
import type { LargeAnswers } from './large-answers.ts'
import { exampleBodies } from './openapi/examples.ts'
import { includeParameter } from './openapi/job-schemas.ts'
import { answers, errors, idempotencyHeader } from './openapi/schemas.ts'
import { IGNORED_HEADER, ignoredHeader } from './parley-headers.ts'
import { convertQuery } from './query.ts'
import { type JobReader, STATUS_MESSAGES } from './read-jobs.ts'
import type { RequestBodies } from './request-bodies.ts'

export interface MessageRoutes {
  readonly requests: CreateRequests
  readonly reader: JobReader
  readonly bodyBytes: number
  readonly bodies: RequestBodies
  readonly answers: Pick<LargeAnswers, 'mayHold'>
  readonly limits: PartLimits
}

type CreateRequest = FastifyRequest<Create>
interface Create {
  Body: SingleCreate
  Querystring: Static<typeof query>
}

/** Unknown parameters are ignored, because earlier versions ignored them. */
const query = Type.Object({ include: includeParameter })

const createSchema = {
  operationId: 'createMessage',
  summary: 'Create a job and wait for its answer',
  description:
    'Waits up to `timeout` seconds. A job that has not finished by then continues: read it by its ID. `callback` is only for batches.',
  tags: ['Jobs'],
  security: [{ apiKey: [] }],
  headers: idempotencyHeader,
  querystring: query,
  body: { ...singleCreate, examples: exampleBodies.singles },
  response: {
    200: answers.ended,
    202: answers.timedOut,
    ...errors(400, 401, 403, 413, 415, 429, 500, 503),
  },
}

const STILL_PROCESSED = 'The job was created and is still being processed. Read it by its ID.'
const NOT_SENT_NOW = 'The job has finished, but its result cannot be sent now. Read it by its ID.'

export function messageRoutes(app: FastifyInstance, options: MessageRoutes): void {
  app.post<Create>(
    '/api/v1/messages',
    {
      bodyLimit: options.bodyBytes,
      config: { create: 'single' },
      attachValidation: true,
      preValidation: convertQuery,
      schema: createSchema,
    },
    // A Fastify reply is a thenable: a handler that resolves with the reply waits until the response is sent. So the handler
    // returns the reply only if it must wait.
    async (request, reply) => {
      const { jobId, pending, repeated } = await create(request, reply, options)
      request.jobIds = [jobId]
      let end: WaitEnd = { kind: 'timeout' }
      if (repeated) end = await endOfRepeated(request, reply, jobId, options)
      else if (pending) {
        options.bodies.wait(request)
        end = await endOf(pending, reply)
      }
      if (end.kind === 'settled') {
        const { include } = request.query
        if (!include?.includes('metadata')) return sendEnded(request, reply, end, options)
        return sendEnded(request, reply, end, options, await options.reader.metadataOf(include, [jobId]))
      }
      if (end.kind === 'stopping') reply.header('connection', 'close')
      sendTimedOut(reply, end.kind === 'vanished' ? await createAgain(request, options) : jobId)
      return
    },
  )
}

interface Created {
  readonly jobId: string
  /** `pending` is null if no slot for waiting is free, or if an earlier request created the job. */
  readonly pending: PendingResponse | null
  /** `repeated` is true if an earlier request with the same Idempotency-Key created the job. */
  readonly repeated: boolean
}

/** This is a function of its own so that the texts of the job can be garbage-collected while the caller waits. */
async function create(
  request: CreateRequest,
  reply: FastifyReply,
  { requests, limits }: MessageRoutes,
): Promise<Created> {
  const elements = elementsOf(request, limits)
  const admitted = await requests.admit(request, elements, true)
  const [job] = admitted.jobs
  if (!job) throw new Error('no job was admitted')
  const [element] = elements
  const timeoutMs = wholeMs(element?.timeoutS ?? TIMEOUT_S.default)
  const result = await requests.creator.accept(admitted, Math.max(0, timeoutMs - admitted.countedMs))
  const earlierIds = result.kind === 'accepted' ? null : earlierJobIds(result)
  const ignored = element?.ignored ? ignoredHeader(elements) : null
  if (ignored !== null) reply.header(IGNORED_HEADER, ignored)
  return result.kind === 'accepted'
    ? { jobId: job.id, pending: result.pending, repeated: false }
    : { jobId: earlierIds?.[0] ?? job.id, pending: null, repeated: true }
}

async function endOfRepeated(
  request: CreateRequest,
  reply: FastifyReply,
  jobId: string,
  { requests, reader, limits }: MessageRoutes,
): Promise<WaitEnd> {
  const [element] = elementsOf(request, limits)
  const { account } = request.caller
  const timeoutMs = wholeMs(element?.timeoutS ?? TIMEOUT_S.default)
  const read = () => reader.read(request, jobId)
  const wait = await requests.creator.awaitEarlier(jobId, account, timeoutMs, read)
  return 'ended' in wait ? endOf(wait, reply) : wait
}

/** SPEC §4.3: if the job was deleted while its caller waited, creates it again. The caller gets the new ID. */
async function createAgain(request: CreateRequest, { requests, limits }: MessageRoutes): Promise<string> {
  const admitted = await requests.admit(request, elementsOf(request, limits), true)
  const result = await requests.creator.accept(admitted, null)
  const [jobId] = result.kind === 'accepted' ? admitted.jobs.map(({ id }) => id) : earlierJobIds(result)
  if (jobId === undefined) throw new Error('no job was admitted')
  request.jobIds = [jobId]
  return jobId
}

/** Returns the reply of a large response, which Fastify has not written yet, so that the handler waits for it. */
function sendEnded(
  request: CreateRequest,
  reply: FastifyReply,
  { record, cacheHit }: Extract<WaitEnd, { kind: 'settled' }>,
  { answers }: MessageRoutes,
  metadata?: MetadataById,
): FastifyReply | undefined {
  const json = jobRecordJson(record, request.query.include, metadata)
  // There is no memory for a large response now. The job has finished, so the caller gets the ID to read it later.
  if (!answers.mayHold(request, json.length)) {
    sendTimedOut(reply, record.id, NOT_SENT_NOW)
    return
  }
  if (cacheHit) reply.header('x-cache', 'hit')
  sendData(reply, 200, STATUS_MESSAGES[record.status], json)
  return request.answerBytes > 0 ? reply : undefined
}

function sendTimedOut(reply: FastifyReply, jobId: string, message = STILL_PROCESSED): FastifyReply {
  reply.header('location', `/api/v1/messages/${jobId}`).header('retry-after', READ_AFTER_S)
  return sendData(reply, 202, message, `{"status":"timeout","job_id":"${jobId}"}`)
}

interface BatchRoutes {
  readonly requests: CreateRequests
  readonly bodyBytes: number
  readonly limits: PartLimits
}

export function batchRoutes(app: FastifyInstance, { requests, bodyBytes, limits }: BatchRoutes): void {
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
          'If one of them is rejected, none is created. The jobs run asynchronously: read each one by its ID, or give it a `callback`. `timeout` is only for a single job.',
        tags: ['Jobs'],
        security: [{ apiKey: [] }],
        headers: idempotencyHeader,
        body: Type.Array(batchElement, { title: 'CreateBatchRequest', examples: exampleBodies.batches }),
        response: { 202: answers.jobIds, ...errors(400, 401, 403, 413, 415, 429, 500, 503) },
      },
    },
    async (request, reply) => {
      const elements = elementsOf(request, limits)
      const admitted = await requests.admit(request, elements, false)
      const result = await requests.creator.accept(admitted, null)
      const ids = result.kind === 'accepted' ? admitted.jobs.map(({ id }) => id) : earlierJobIds(result)
      request.jobIds = ids
      const ignored = ignoredHeader(elements)
      if (ignored !== null) reply.header(IGNORED_HEADER, ignored)
      reply.header('retry-after', READ_AFTER_S)
      const message = ids.length === 1 ? '1 job is enqueued.' : `${ids.length} jobs are enqueued.`
      return sendData(reply, 202, message, JSON.stringify({ job_ids: ids }))
    },
  )
}
