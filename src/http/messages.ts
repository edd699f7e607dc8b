/** SPEC §4.3: a single create that waits for its answer. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { wholeMs } from '../clock.ts'
import type { PartLimits } from '../job/create-body.ts'
import { TIMEOUT_S } from '../job/field-bounds.ts'
import { jobRecordJson } from '../job/job-record.ts'
import { type SingleCreate, singleCreate } from '../job/request.ts'
import type { PendingResponse, PendingResponses, WaitEnd } from '../queue/pending-responses.ts'
import { earlierJobIds, elementsOf, type JobCreator } from './create-jobs.ts'
import { READ_AFTER_S, sendData } from './envelope.ts'
import { IGNORED_HEADER, ignoredHeader } from './ignored-header.ts'
import { hasEnded, type JobReader } from './job-reader.ts'
import type { LargeAnswers } from './large-answers.ts'
import { exampleBodies } from './openapi/examples.ts'
import { answers, errors, idempotencyHeader } from './openapi/schemas.ts'
import { STATUS_MESSAGES } from './read-job.ts'
import type { RequestBodies } from './request-bodies.ts'

export interface MessageRoutes {
  readonly creator: JobCreator
  readonly pendingResponses: PendingResponses
  readonly reader: JobReader
  readonly bodyBytes: number
  readonly bodies: RequestBodies
  readonly answers: Pick<LargeAnswers, 'mayHold'>
  readonly limits: PartLimits
}

type CreateRequest = FastifyRequest<{ Body: SingleCreate }>

const createSchema = {
  operationId: 'createMessage',
  summary: 'Create a job and wait for its answer',
  description:
    'Waits up to `timeout` seconds. A job that has not finished by then continues: read it by its ID. `callback` is only for batches.',
  tags: ['Jobs'],
  security: [{ apiKey: [] }],
  headers: idempotencyHeader,
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
  app.post<{ Body: SingleCreate }>(
    '/api/v1/messages',
    {
      bodyLimit: options.bodyBytes,
      config: { create: 'single' },
      attachValidation: true,
      schema: createSchema,
    },
    // Resolves without a value where possible: the reply is a thenable, so a promise that resolves with it would also wait
    // for it.
    async (request, reply) => {
      const { jobId, pending, repeated } = await create(request, reply, options)
      request.jobIds = [jobId]
      let end: WaitEnd = { kind: 'timeout' }
      if (repeated) end = await endOfRepeated(request, reply, jobId, options)
      else if (pending) {
        options.bodies.wait(request)
        end = await endOf(pending, reply)
      }
      if (end.kind === 'settled') return sendEnded(request, reply, end, options)
      if (end.kind === 'stopping') reply.header('connection', 'close')
      sendTimedOut(reply, end.kind === 'vanished' ? await createAgain(request, options) : jobId)
      return
    },
  )
}

interface Created {
  readonly jobId: string
  /** Null if the server cannot wait, or if the job is an earlier one. */
  readonly pending: PendingResponse | null
  /** The job is that of an earlier request with the same Idempotency-Key. */
  readonly repeated: boolean
}

/** A separate function, so that the parts of the job that it uses are not kept in memory while the caller waits. */
async function create(
  request: CreateRequest,
  reply: FastifyReply,
  { creator, pendingResponses, limits }: MessageRoutes,
): Promise<Created> {
  const elements = elementsOf(request, limits)
  const admitted = await creator.admit(request, elements, true)
  const [job] = admitted.jobs
  if (!job) throw new Error('no job was admitted')
  const [element] = elements
  const pending = pendingResponses.add(job.id, job.account, wholeMs(element?.timeoutS ?? TIMEOUT_S.default))
  try {
    const accepted = await creator.accept(admitted, pending !== null)
    const earlierIds = accepted.kind === 'accepted' ? null : earlierJobIds(accepted)
    const ignored = element?.ignored ? ignoredHeader(elements) : null
    if (ignored !== null) reply.header(IGNORED_HEADER, ignored)
    if (earlierIds === null) return { jobId: job.id, pending, repeated: false }
    pending?.leave()
    return { jobId: earlierIds[0] ?? job.id, pending: null, repeated: true }
  } catch (error) {
    pending?.leave()
    throw error
  }
}

/** The wait ends if the caller hangs up; the job continues and can be read. */
function endOf(pending: PendingResponse, { raw, request }: FastifyReply): Promise<WaitEnd> {
  raw.on('close', pending.leave)
  // The caller may have hung up while the job was being stored.
  if (request.raw.socket.destroyed) pending.leave()
  return pending.ended
}

/** A repeated request waits for the earlier job like for a new one, and gets the answer at once if the job has finished. */
async function endOfRepeated(
  request: CreateRequest,
  reply: FastifyReply,
  jobId: string,
  options: MessageRoutes,
): Promise<WaitEnd> {
  const [element] = elementsOf(request, options.limits)
  const timeoutMs = wholeMs(element?.timeoutS ?? TIMEOUT_S.default)
  const pending = options.pendingResponses.add(jobId, request.caller.account, timeoutMs)
  const record = await options.reader.read(request, jobId).catch((error: unknown) => {
    pending?.leave()
    throw error
  })
  if (record && !hasEnded(record)) {
    return pending === null ? { kind: 'timeout' } : endOf(pending, reply)
  }
  pending?.leave()
  return record ? { kind: 'settled', record, cacheHit: false } : { kind: 'vanished' }
}

/** SPEC §4.3: a job that vanished during the wait is created again, and the caller gets the new ID for polling. */
async function createAgain(request: CreateRequest, { creator, limits }: MessageRoutes): Promise<string> {
  const admitted = await creator.admit(request, elementsOf(request, limits), true)
  const earlierIds = earlierJobIds(await creator.accept(admitted, false))
  const jobId = earlierIds?.[0] ?? admitted.jobs[0]?.id
  if (jobId === undefined) throw new Error('no job was admitted')
  request.jobIds = [jobId]
  return jobId
}

/** Returns the reply if the response is large: nothing has been written yet, so the handler must wait for it. */
function sendEnded(
  request: CreateRequest,
  reply: FastifyReply,
  { record, cacheHit }: Extract<WaitEnd, { kind: 'settled' }>,
  { answers }: MessageRoutes,
): FastifyReply | undefined {
  const json = jobRecordJson(record)
  // The job has finished and was paid for. An account whose clients read slowly can read it later.
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
