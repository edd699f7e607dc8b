/** SPEC §4.3: a single create with its wait, and §4.2: reading a job. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import Type from 'typebox'
import type { Clock } from '../clock.ts'
import { isJobId } from '../job/job-id.ts'
import { type SingleCreate, singleCreate, TIMEOUT_S } from '../job/request.ts'
import { type JobView, jobViewJson } from '../job/view.ts'
import type { Element } from '../life/admit.ts'
import type { Store } from '../store/store.ts'
import type { Creation } from './creation.ts'
import { answers, errors } from './docs-schemas.ts'
import { sendData } from './envelope.ts'
import { noSuchJob } from './refusals.ts'
import type { Wait, WaitEnd, Waiters } from './waiters.ts'

export interface MessageRoutes {
  readonly creation: Creation
  readonly waiters: Waiters
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
        body: singleCreate,
        response: {
          200: answers.job,
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
        response: { 200: answers.job, ...errors(401, 404, 429, 500, 503) },
      },
    },
    (request, reply) => read(request, reply, options),
  )
}

async function createAndWait(
  request: FastifyRequest<{ Body: SingleCreate }>,
  reply: FastifyReply,
  options: MessageRoutes,
): Promise<FastifyReply> {
  const { creation } = options
  const elements = elementsOf(request)
  const idempotency = creation.idempotencyOf(request, elements)
  const [job] = await creation.admit(elements, request.caller, true)
  if (!job) throw new Error('admission lost the job')
  const timeoutMs = (request.body.timeout ?? TIMEOUT_S.default) * 1000
  const wait = options.waiters.wait(job.id, timeoutMs)
  try {
    const accepted = await creation.accept([job], idempotency, wait !== null)
    if (accepted.kind === 'repeated') {
      wait?.leave()
      const [jobId = job.id] = accepted.jobIds
      const end = await endOfRepeated(request, reply, jobId, timeoutMs, options)
      return await sendEnd(request, reply, jobId, end, options)
    }
  } catch (error) {
    wait?.leave()
    throw error
  }
  request.jobIds = [job.id]
  if (!wait) return sendTimedOut(reply, job.id)
  return sendEnd(request, reply, job.id, await endOf(wait, reply), options)
}

/** Who hangs up is not waited for; the job goes on and stays readable. */
async function endOf({ end, leave }: Wait, reply: FastifyReply): Promise<WaitEnd> {
  reply.raw.once('close', leave)
  const how = await end
  reply.raw.off('close', leave)
  return how
}

/** The same request as before: its job is waited for like a new one, and answered at once if it has ended. */
async function endOfRepeated(
  request: FastifyRequest<{ Body: SingleCreate }>,
  reply: FastifyReply,
  jobId: string,
  timeoutMs: number,
  options: MessageRoutes,
): Promise<WaitEnd> {
  request.jobIds = [jobId]
  const wait = options.waiters.wait(jobId, timeoutMs)
  const view = await readJob(request, jobId, options)
  if (view && view.status !== 'completed' && view.status !== 'failed') {
    return wait ? endOf(wait, reply) : { kind: 'stopping' }
  }
  wait?.leave()
  return view ? { kind: 'settled', view, cacheHit: false } : { kind: 'vanished' }
}

async function sendEnd(
  request: FastifyRequest<{ Body: SingleCreate }>,
  reply: FastifyReply,
  jobId: string,
  end: WaitEnd,
  options: MessageRoutes,
): Promise<FastifyReply> {
  if (end.kind === 'settled') {
    if (end.cacheHit) reply.header('x-cache', 'hit')
    return sendJob(reply, end.view)
  }
  if (end.kind === 'stopping') reply.header('connection', 'close')
  return sendTimedOut(reply, end.kind === 'vanished' ? await createAgain(request, options) : jobId)
}

/** SPEC §4.3: a job that vanished while it was waited for is created again, and its new id given for polling. */
async function createAgain(
  request: FastifyRequest<{ Body: SingleCreate }>,
  { creation }: MessageRoutes,
): Promise<string> {
  const [job] = await creation.admit(elementsOf(request), request.caller, true)
  if (!job) throw new Error('admission lost the job')
  await creation.accept([job], null, false)
  request.jobIds = [job.id]
  return job.id
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

function sendJob(reply: FastifyReply, view: JobView): FastifyReply {
  return sendData(reply, 200, MESSAGES[view.status], jobViewJson(view))
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

function readJob(request: FastifyRequest, jobId: string, options: MessageRoutes): Promise<JobView | null> {
  const { store, clock, retentionMs } = options
  return store.read(request.caller.account, jobId, { nowMs: clock.nowMs(), retentionMs })
}
