/** SPEC §4.3: a single create with its wait, and §4.2: reading a job. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import Type from 'typebox'
import { type Clock, wholeMs } from '../clock.ts'
import { isJobId } from '../job/job-id.ts'
import { type JobRecord, jobRecordJson } from '../job/job-record.ts'
import { type SingleCreate, singleCreate, TIMEOUT_S } from '../job/request.ts'
import type { Element } from '../queue/admission.ts'
import type { PendingResponse, PendingResponses, WaitEnd } from '../queue/pending-responses.ts'
import type { Store } from '../store/store.ts'
import type { JobCreator } from './create-jobs.ts'
import { sendData } from './envelope.ts'
import { noSuchJob } from './errors.ts'
import { exampleBodies } from './openapi/examples.ts'
import { answers, errors, idempotencyHeader } from './openapi/schemas.ts'

export interface MessageRoutes {
  readonly creation: JobCreator
  readonly pendingResponses: PendingResponses
  readonly store: Pick<Store, 'read'>
  readonly clock: Clock
  readonly retentionMs: number
  readonly bodyBytes: number
}

export function messageRoutes(app: FastifyInstance, options: MessageRoutes): void {
  app.post<{ Body: SingleCreate }>(
    '/api/v1/messages',
    {
      bodyLimit: options.bodyBytes,
      schema: {
        summary: 'Create one job and wait for its answer',
        description:
          'Waits up to `timeout` seconds. A job that is not done by then goes on; read it by its id. `callback` belongs to batches.',
        tags: ['Jobs'],
        security: [{ apiKey: [] }],
        headers: idempotencyHeader,
        body: { ...singleCreate, examples: exampleBodies.singles },
        response: {
          200: answers.ended,
          202: answers.timedOut,
          ...errors(400, 401, 403, 413, 415, 500, 503),
        },
      },
    },
    (request, reply) => createAndWait(request, reply, options),
  )
  app.get<{ Params: { jobId: string } }>(
    '/api/v1/messages/:jobId',
    {
      config: { limitReads: true },
      schema: {
        summary: 'Read a job',
        tags: ['Jobs'],
        security: [{ apiKey: [] }],
        params: Type.Object({ jobId: Type.String({ description: 'The job identifier.' }) }),
        response: { 200: answers.read, ...errors(401, 404, 429, 500, 503) },
      },
    },
    (request, reply) => read(request, reply, options),
  )
}

/** Resolves to nothing, since the reply is a thenable: a promise that is to resolve to it waits for it as well. */
async function createAndWait(
  request: FastifyRequest<{ Body: SingleCreate }>,
  reply: FastifyReply,
  options: MessageRoutes,
): Promise<void> {
  const { jobId, wait, repeated } = await create(request, options)
  request.jobIds = [jobId]
  let end: WaitEnd = { kind: 'timeout' }
  if (repeated) end = await endOfRepeated(request, reply, jobId, options)
  else if (wait) end = await endOf(wait, reply)
  if (end.kind === 'settled') {
    if (end.cacheHit) reply.header('x-cache', 'hit')
    sendJob(reply, end.record)
    return
  }
  if (end.kind === 'stopping') reply.header('connection', 'close')
  sendTimedOut(reply, end.kind === 'vanished' ? await createAgain(request, options) : jobId)
}

interface Created {
  readonly jobId: string
  /** Null when waiting is not possible. */
  readonly wait: PendingResponse | null
  /** The job is that of an earlier request with the same Idempotency-Key. */
  readonly repeated: boolean
}

/** A function of its own, so that what it needs of the job is not held for as long as the caller waits. */
async function create(
  request: FastifyRequest<{ Body: SingleCreate }>,
  { creation, pendingResponses }: MessageRoutes,
): Promise<Created> {
  const elements = elementsOf(request)
  const idempotency = creation.idempotencyOf(request, elements)
  const [job] = await creation.admit(elements, request.caller, true)
  if (!job) throw new Error('admission lost the job')
  const wait = pendingResponses.add(job.id, timeoutMsOf(request))
  try {
    const accepted = await creation.accept([job], request.caller, { idempotency, awaited: wait !== null })
    if (accepted.kind === 'accepted') return { jobId: job.id, wait, repeated: false }
    wait?.leave()
    return { jobId: accepted.jobIds[0] ?? job.id, wait: null, repeated: true }
  } catch (error) {
    wait?.leave()
    throw error
  }
}

function timeoutMsOf({ body }: FastifyRequest<{ Body: SingleCreate }>): number {
  return wholeMs(body.timeout ?? TIMEOUT_S.default)
}

/** Who hangs up is not waited for; the job goes on and stays readable. Leaving a wait that has ended does nothing. */
function endOf({ ended, leave }: PendingResponse, reply: FastifyReply): Promise<WaitEnd> {
  reply.raw.on('close', leave)
  return ended
}

/** The same request as before: its job is waited for like a new one, and answered at once if it has ended. */
async function endOfRepeated(
  request: FastifyRequest<{ Body: SingleCreate }>,
  reply: FastifyReply,
  jobId: string,
  options: MessageRoutes,
): Promise<WaitEnd> {
  const wait = options.pendingResponses.add(jobId, timeoutMsOf(request))
  const view = await readJob(request, jobId, options)
  if (view && view.status !== 'completed' && view.status !== 'failed') {
    return wait ? endOf(wait, reply) : { kind: 'timeout' }
  }
  wait?.leave()
  return view ? { kind: 'settled', record: view, cacheHit: false } : { kind: 'vanished' }
}

/** SPEC §4.3: a job that vanished while it was waited for is created again, and its new id given for polling. */
async function createAgain(
  request: FastifyRequest<{ Body: SingleCreate }>,
  { creation }: MessageRoutes,
): Promise<string> {
  const elements = elementsOf(request)
  const [job] = await creation.admit(elements, request.caller, true)
  if (!job) throw new Error('admission lost the job')
  const idempotency = creation.idempotencyOf(request, elements)
  const accepted = await creation.accept([job], request.caller, { idempotency, awaited: false })
  const [jobId = job.id] = accepted.kind === 'repeated' ? accepted.jobIds : []
  request.jobIds = [jobId]
  return jobId
}

function elementsOf({ body }: FastifyRequest<{ Body: SingleCreate }>): readonly Element[] {
  return [{ object: body, payloadJson: null }]
}

const MESSAGES = {
  pending: 'The job is waiting to be processed.',
  assigned: 'The job is being processed.',
  completed: 'The job is completed.',
  failed: 'The job has failed.',
} as const

function sendJob(reply: FastifyReply, view: JobRecord): FastifyReply {
  return sendData(reply, 200, MESSAGES[view.status], jobRecordJson(view))
}

function sendTimedOut(reply: FastifyReply, jobId: string): FastifyReply {
  const message = 'The job is created and still being processed; read it by its id.'
  return sendData(reply, 202, message, `{"status":"timeout","job_id":"${jobId}"}`)
}

async function read(
  request: FastifyRequest<{ Params: { jobId: string } }>,
  reply: FastifyReply,
  options: MessageRoutes,
): Promise<FastifyReply> {
  const { jobId } = request.params
  const view = isJobId(jobId) ? await readJob(request, jobId, options) : null
  if (!view) throw noSuchJob()
  request.jobIds = [jobId]
  return sendJob(reply, view)
}

function readJob(request: FastifyRequest, jobId: string, options: MessageRoutes): Promise<JobRecord | null> {
  const { store, clock, retentionMs } = options
  return store.read(request.caller.account, jobId, { nowMs: clock.nowMs(), retentionMs })
}
