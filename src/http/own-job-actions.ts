/** Cancels and deletes the caller's own jobs, for Parley's API and for `/v1`. */
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Clock } from '../clock.ts'
import { TaskFailed } from '../cpu-pool/pool-thread.ts'
import type { InputPrices } from '../job/cost.ts'
import { readJobId } from '../job/job-id.ts'
import { type JobRecord, jobRecordJson } from '../job/job-record.ts'
import { isCancelledError } from '../job/results-without-call.ts'
import { MinuteCounter } from '../sharing/minute-counter.ts'
import type { OwnDeleted } from '../store/own-job-store.ts'
import type { Store } from '../store/store.ts'
import { countConversation } from '../tokens/token-counter.ts'
import { type Static, Type } from '../typed-schema.ts'
import { sendData } from './envelope.ts'
import { callbackOwed, HttpError, jobEnded, jobNotEnded, noSuchJob, tooManyActions } from './errors.ts'
import type { RequestCpu } from './load-shedding/request-cpu.ts'
import { exampleResponses } from './openapi/examples.ts'
import { failedJob, jobId, jobIdParam } from './openapi/job-schemas.ts'
import { errors, success } from './openapi/schemas.ts'
import type { JobReader } from './read-jobs.ts'

export type OwnAction = 'cancel' | 'delete'

export interface OwnJobActionsOptions {
  readonly store: Pick<Store, 'cancelOwnJob' | 'deleteOwnJob'>
  readonly reader: JobReader
  /** The model server charges the input tokens of an assigned job even if the job is cancelled. */
  readonly countInput: CountHeldInput
  /** `inputPrices` is absent if no model has a price. */
  readonly inputPrices?: () => InputPrices | undefined
  readonly clock: Pick<Clock, 'nowMs' | 'steadyMs'>
  /** The limits apply per key and minute: `limits.cancels_per_minute` and `limits.deletes_per_minute`. */
  readonly limits: Readonly<Record<OwnAction, number>>
  /** Aborts the job's execution on this node, and answers its pending responses on this node. */
  readonly onCancelled: (jobId: string) => Promise<void>
  /** Reports each cancelled or deleted job, for the log and metrics. */
  readonly onAction: (event: OwnActionEvent) => void
}

export interface OwnActionEvent {
  readonly action: OwnAction
  readonly jobId: string
  readonly account: string
  readonly keyId: string
  readonly requestId: string
}

type JobParam = { Params: { jobId: string } }

const deleteQuery = Type.Object(
  {
    drop_callback: Type.Optional(
      Type.Enum(['true', 'false'], {
        default: 'false',
        description:
          'With `true`, a job is deleted even if its callback is pending. The callback is then not sent.',
      }),
    ),
  },
  { additionalProperties: false },
)

const cancelledAnswer = success('The job is cancelled, by this request or an earlier one.', failedJob, {
  examples: exampleResponses.cancelled,
})

const deletedJob = Type.Object({ job_id: jobId, deleted: Type.Literal(true) }, { title: 'DeletedJob' })

const deletedAnswer = success('The job was deleted.', deletedJob, {
  examples: exampleResponses.deleted,
})

const cancelSchema = {
  operationId: 'cancelMessage',
  summary: 'Cancel an unfinished job',
  description:
    'The job fails with `cancelled`, and its callback is sent. If a node is running the job, the input tokens of its call count as usage. If the job is already cancelled, it is returned unchanged.',
  tags: ['Jobs'],
  security: [{ apiKey: [] }],
  params: jobIdParam,
  response: { 200: cancelledAnswer, ...errors(400, 401, 404, 409, 413, 415, 429, 500, 503) },
}

const deleteSchema = {
  operationId: 'deleteMessage',
  summary: 'Delete a finished job',
  description:
    'Deletes the conversation, the answer, its cached response and the record of its callback. The job must have finished, and its callback must have been delivered or have failed permanently. Its usage still counts.',
  tags: ['Jobs'],
  security: [{ apiKey: [] }],
  params: jobIdParam,
  querystring: deleteQuery,
  response: { 200: deletedAnswer, ...errors(400, 401, 404, 409, 413, 415, 429, 500, 503) },
}

export class OwnJobActions {
  /** These `onRequest` hooks reject a request over the rate limit before its body is read. */
  readonly limit: Readonly<Record<OwnAction, onRequestHookHandler>>
  readonly #options: OwnJobActionsOptions

  constructor(options: OwnJobActionsOptions) {
    this.limit = { cancel: limiter('cancel', options), delete: limiter('delete', options) }
    this.#options = options
  }

  /** Returns the job's record, even if the job had already finished; null if the account has no such job. */
  async cancel(request: FastifyRequest, jobId: string): Promise<JobRecord | null> {
    const { store, reader, countInput, inputPrices, clock, onCancelled } = this.#options
    const { account } = request.caller
    const inputTokens = await countInput(request, jobId)
    const prices = inputPrices?.()
    const result = await store.cancelOwnJob({
      account,
      jobId,
      nowMs: clock.nowMs(),
      inputTokens,
      ...(prices && { inputPrices: prices }),
    })
    if (result === 'cancelled') {
      this.#report('cancel', request, jobId)
      await onCancelled(jobId)
    }
    return result === 'unknown' ? null : reader.read(request, jobId)
  }

  async delete(request: FastifyRequest, jobId: string, dropCallback: boolean): Promise<OwnDeleted> {
    const { store, reader } = this.#options
    const { account } = request.caller
    const result = await store.deleteOwnJob({ account, jobId, dropCallback, expiry: reader.expiry() })
    if (result === 'deleted') this.#report('delete', request, jobId)
    return result
  }

  #report(action: OwnAction, { caller, id }: FastifyRequest, jobId: string): void {
    const { account, keyId } = caller
    this.#options.onAction({ action, jobId, account, keyId, requestId: id })
  }
}

export function ownJobActionRoutes(app: FastifyInstance, actions: OwnJobActions): void {
  app.post<JobParam>(
    '/api/v1/messages/:jobId/cancel',
    { onRequest: actions.limit.cancel, schema: cancelSchema },
    async (request, reply) => {
      const jobId = idOf(request)
      const record = await actions.cancel(request, jobId)
      if (!record) throw noSuchJob()
      request.jobIds = [jobId]
      if (!isCancelledError(record.errorJson)) throw jobEnded()
      return sendData(reply, 200, 'The job was cancelled.', jobRecordJson(record))
    },
  )

  app.delete<JobParam & { Querystring: Static<typeof deleteQuery> }>(
    '/api/v1/messages/:jobId',
    { onRequest: actions.limit.delete, schema: deleteSchema },
    async (request, reply) => {
      const jobId = idOf(request)
      const result = await actions.delete(request, jobId, request.query.drop_callback === 'true')
      if (result === 'unknown') throw noSuchJob()
      request.jobIds = [jobId]
      if (result === 'not ended') throw jobNotEnded()
      if (result === 'callback owed') throw callbackOwed()
      return sendData(reply, 200, 'The job was deleted.', `{"job_id":"${jobId}","deleted":true}`)
    },
  )
}

function idOf({ params }: FastifyRequest<JobParam>): string {
  const jobId = readJobId(params.jobId)
  if (jobId === null) throw noSuchJob()
  return jobId
}

function limiter(action: OwnAction, { clock, limits }: OwnJobActionsOptions): onRequestHookHandler {
  const counter = new MinuteCounter(clock)
  const limit = limits[action]
  return (request, _reply, done) => {
    const { count, leftMs } = counter.add(request.caller.keyId)
    const seconds = Math.ceil(leftMs / 1000)
    done(count > limit ? tooManyActions(action, limit, `limits.${action}s_per_minute`, seconds) : undefined)
  }
}

/**
 * The tokens of longer conversations are not counted here. They were counted when the job was created, unless the tier's limit
 * of input tokens is higher than this.
 */
const COUNTED_BYTES = 1024 * 1024
/** A cancellation waits at most this long for a thread to count the tokens, and then continues without the count. */
const COUNT_MS = 5_000

type CountHeldInput = (request: FastifyRequest, jobId: string) => Promise<number | null>

/** Resolves with null if the messages are too long or counting fails, because it must be possible to cancel any job. */
export function heldInputCounter(store: Pick<Store, 'heldMessages'>, cpu: RequestCpu): CountHeldInput {
  return async (request, jobId) => {
    const messagesJson = await store.heldMessages(request.caller.account, jobId, COUNTED_BYTES)
    if (messagesJson === null) return null
    const conversation = { messagesJson, messages: 1, tokensAtMost: Buffer.byteLength(messagesJson) }
    try {
      const count = await cpu.use(request, COUNT_MS, (run) =>
        countConversation(conversation, Number.MAX_SAFE_INTEGER, (jsonTexts, enough) =>
          run('count tokens', { jsonTexts, enough }),
        ),
      )
      return count.tokens
    } catch (error) {
      if (error instanceof HttpError || error instanceof TaskFailed) return null
      throw error
    }
  }
}
