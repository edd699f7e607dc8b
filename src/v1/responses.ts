/** Serves `/v1/responses`. A response is a job with a record of the request. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { sendJson } from '../http/envelope.ts'
import { LARGE_ANSWER, type LargeAnswers } from '../http/large-answers.ts'
import type { OwnJobActions } from '../http/own-job-actions.ts'
import type { JobReader } from '../http/read-jobs.ts'
import type { CreateElement } from '../job/create-body.ts'
import { FieldProblem } from '../job/field-rules.ts'
import { eventTo, type Message } from '../job/job.ts'
import { endingOf, type JobRecord } from '../job/job-record.ts'
import { withOptions, withRecord } from '../job/response-format.ts'
import { valueEnd } from '../json-text/scan-json.ts'
import type { Store } from '../store/store.ts'
import {
  BEFORE_INSTRUCTIONS,
  ID_PREFIX,
  jobIdOf,
  recordOf,
  responseJson,
  type StoredRequest,
} from './answers.ts'
import { failureOf, sendV1Error, V1Error } from './errors.ts'
import { is, isEmpty, supportedFields } from './fields.ts'
import { type HeldCreates, RESPONSE_FIELD_NAMES } from './held-creates.ts'
import { RESPONSE_SCHEMAS } from './job-openapi.ts'
import { UNCHECKED } from './openapi.ts'
import type { ResponseRecord } from './response-fields.ts'

export interface ResponseRoutes {
  readonly creates: HeldCreates
  readonly store: Pick<Store, 'readRequest'>
  readonly reader: JobReader
  readonly actions: OwnJobActions
  readonly answers: Pick<LargeAnswers, 'reserve'>
  readonly bodyBytes: number
}

type ById = { Params: { id: string } }

/** This event reports the end of a background response. */
const EVENT = { of: 'response', idPrefix: ID_PREFIX }
const NO_STREAM = {
  supported: [],
  ignored: ['include_obfuscation'],
  neutral: { stream: is('false'), include: isEmpty },
}

export function responseRoutes(app: FastifyInstance, options: ResponseRoutes): void {
  const { actions, bodyBytes, creates, reader } = options

  app.post(
    '/v1/responses',
    {
      bodyLimit: bodyBytes,
      config: { bearer: true, translation: 'response' },
      ...UNCHECKED,
      schema: RESPONSE_SCHEMAS.create,
    },
    async (request, reply) => {
      const element = creates.elementOf(request)
      const stored = storedOf(element)
      const { webhookUrl } = request.caller
      const job = { element, fieldNames: RESPONSE_FIELD_NAMES }
      if (recordOf(stored.responseFormatJson)?.background) {
        const reported = webhookUrl === null ? job : { ...job, callback: eventTo(webhookUrl, EVENT) }
        return sendJson(reply, responseJson(await creates.create(request, reply, reported), stored))
      }
      const held = await creates.hold(request, reply, job)
      if (held.kind === 'error') return sendV1Error(reply, held.error)
      const ending = endingOf(held.record)
      if (ending === 'failed' || ending === 'cancelled') return sendV1Error(reply, failureOf(held.record))
      const json = responseJson(held.record, stored)
      if (held.cacheHit) reply.header('x-cache', 'hit')
      return sendJson(reply, json)
    },
  )

  app.get<ById>(
    '/v1/responses/:id',
    { config: { bearer: true, limitReads: true }, ...UNCHECKED, schema: RESPONSE_SCHEMAS.retrieve },
    async (request, reply) => {
      supportedFields(request.query, NO_STREAM)
      const found = await findResponse(request, options)
      const job = await reader.read(request, found.jobId)
      return sendJson(reply, await viewOf(request, job, found, options))
    },
  )

  app.post<ById>(
    '/v1/responses/:id/cancel',
    {
      config: { bearer: true },
      onRequest: actions.limit.cancel,
      ...UNCHECKED,
      schema: RESPONSE_SCHEMAS.cancel,
    },
    async (request, reply) => {
      const found = await findResponse(request, options)
      const job = await actions.cancel(request, found.jobId)
      return sendJson(reply, await viewOf(request, job, found, options))
    },
  )

  // An unfinished response is cancelled before it is deleted. No event is sent, because the response could not be retrieved.
  app.delete<ById>(
    '/v1/responses/:id',
    {
      config: { bearer: true },
      onRequest: actions.limit.delete,
      ...UNCHECKED,
      schema: RESPONSE_SCHEMAS.delete,
    },
    async (request, reply) => {
      const { jobId } = await findResponse(request, options)
      let result = await actions.delete(request, jobId, true)
      if (result === 'not ended') {
        await actions.cancel(request, jobId)
        result = await actions.delete(request, jobId, true)
      }
      if (result !== 'deleted') throw noSuchResponse(request)
      return sendJson(
        reply,
        JSON.stringify({ id: `${ID_PREFIX}${jobId}`, object: 'response', deleted: true }),
      )
    },
  )
}

/** Returns the fields of a new job from which its response object is built, so that the job need not be read. */
function storedOf(element: CreateElement): StoredRequest {
  const { model, messagesJson, options, recordJson = '{}' } = element
  const responseFormatJson = withRecord(withOptions(element.responseFormatJson, options ?? {}), recordJson)
  const at = BEFORE_INSTRUCTIONS.length
  const hasInstructions = (recordOf(responseFormatJson)?.instructions ?? 0) > 0
  const instructionsJson = hasInstructions ? messagesJson.slice(at, valueEnd(messagesJson, at)) : 'null'
  return { model, responseFormatJson, instructionsJson }
}

export interface FoundResponse {
  readonly jobId: string
  readonly record: ResponseRecord
  readonly model: string
  readonly responseFormatJson: string
  readonly messageBytes: number
}

/** Throws 404 if the account has no response with the ID in the path. */
export async function findResponse(
  request: FastifyRequest<ById>,
  { store, reader }: Pick<ResponseRoutes, 'store' | 'reader'>,
): Promise<FoundResponse> {
  const { account } = request.caller
  const jobId = jobIdOf(request.params.id)
  const expiry = reader.expiry()
  const found = jobId && (await store.readRequest({ account, jobId, expiry, messageChars: 0 }))
  const record = found ? recordOf(found.responseFormatJson) : null
  if (!jobId || !found || !record) throw noSuchResponse(request)
  request.jobIds = [jobId]
  return { jobId, record, ...found }
}

/**
 * Before the call, the bytes of the job's result must be reserved in the byte budget (`LargeAnswers`).
 * @param job null if it was deleted in the meantime
 */
async function viewOf(
  request: FastifyRequest<ById>,
  job: JobRecord | null,
  { jobId, record, model, responseFormatJson, messageBytes }: FoundResponse,
  { store, reader, answers }: Pick<ResponseRoutes, 'store' | 'reader' | 'answers'>,
): Promise<string> {
  if (job === null) throw noSuchResponse(request)
  let instructionsJson = 'null'
  if (record.instructions > 0) {
    const { account } = request.caller
    const messageChars = BEFORE_INSTRUCTIONS.length + record.instructions
    // Compressed messages can only be read as a whole, so the bytes of all messages are counted.
    if (messageBytes > LARGE_ANSWER && request.answerBytes === 0) await answers.reserve(request, messageBytes)
    const found = await store.readRequest({ account, jobId, expiry: reader.expiry(), messageChars })
    instructionsJson = found?.messagesStart.slice(BEFORE_INSTRUCTIONS.length) ?? 'null'
  }
  return responseJson(job, { model, responseFormatJson, instructionsJson })
}

export function noSuchResponse({ params }: FastifyRequest<ById>): V1Error {
  return new V1Error(404, `Response with id '${params.id.slice(0, 64)}' not found.`, { param: 'id' })
}

const LIMIT = { most: 100, default: 20 } as const
/** This number of characters includes all messages, because no body has so many. */
const ALL = 2 ** 30

interface Query {
  readonly after: string | null
  readonly limit: number
  readonly newestFirst: boolean
}

/** Lists the messages of a response without its instructions. */
export function inputItemsRoute(app: FastifyInstance, options: ResponseRoutes): void {
  const { answers, reader, store } = options
  app.get<ById>(
    '/v1/responses/:id/input_items',
    { config: { bearer: true, limitReads: true }, ...UNCHECKED, schema: RESPONSE_SCHEMAS.inputItems },
    async (request, reply) => {
      const query = queryOf(request.query)
      const { jobId, record, messageBytes } = await findResponse(request, options)
      if (messageBytes > LARGE_ANSWER) await answers.reserve(request, messageBytes)
      const { account } = request.caller
      const found = await store.readRequest({ account, jobId, expiry: reader.expiry(), messageChars: ALL })
      if (found === null) throw noSuchResponse(request)
      const messages: Message[] = JSON.parse(found.messagesStart)
      const items = messages
        .slice(record.instructions > 0 ? 1 : 0)
        .map((message, at) => itemOf(message, jobId, at))
      return sendJson(reply, JSON.stringify(pageOf(items, query)))
    },
  )
}

function queryOf(given: unknown): Query {
  const policy = { supported: ['after', 'limit', 'order'], ignored: [], neutral: { include: isEmpty } }
  const { after = null, limit = String(LIMIT.default), order = 'desc' } = supportedFields(given, policy)
  const number = /^\d{1,3}$/.test(String(limit)) ? Number(limit) : 0
  if (number < 1 || number > LIMIT.most) throw new FieldProblem('limit', `must be from 1 to ${LIMIT.most}`)
  if (order !== 'asc' && order !== 'desc') throw new FieldProblem('order', 'must be asc or desc')
  return { after: after === null ? null : String(after), limit: number, newestFirst: order === 'desc' }
}

interface Item {
  readonly id: string
}

function itemOf({ role, content: text }: Message, jobId: string, at: number): Item {
  const content =
    role === 'assistant'
      ? { type: 'output_text', text, annotations: [], logprobs: [] }
      : { type: 'input_text', text }
  const item = { id: `msg_${jobId}_${at}`, type: 'message', role, status: 'completed', content: [content] }
  return item
}

function pageOf(items: readonly Item[], { after, limit, newestFirst }: Query) {
  const ordered = newestFirst ? items.toReversed() : items
  const start = after === null ? 0 : ordered.findIndex(({ id }) => id === after) + 1
  if (after !== null && start === 0)
    throw new FieldProblem('after', 'is not the id of an item of this response')
  const data = ordered.slice(start, start + limit)
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + limit < ordered.length,
  }
}
