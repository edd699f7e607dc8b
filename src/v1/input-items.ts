/** GET /v1/responses/{id}/input_items: the messages that a response was created from, without its instructions. */
import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../http/envelope.ts'
import { LARGE_ANSWER } from '../http/large-answers.ts'
import { FieldProblem } from '../job/field-rules.ts'
import type { Message } from '../job/job.ts'
import { isEmpty, supportedFields } from './fields.ts'
import { UNCHECKED } from './openapi.ts'
import { SCHEMAS } from './response-openapi.ts'
import { type ById, findResponse, noSuchResponse, type ResponseRoutes } from './responses.ts'

const LIMIT = { most: 100, default: 20 } as const
/** A length that no body reaches, to read all characters. */
const ALL = 2 ** 30

interface Query {
  readonly after: string | null
  readonly limit: number
  readonly newestFirst: boolean
}

export function inputItemsRoute(app: FastifyInstance, options: ResponseRoutes): void {
  const { answers, reader, store } = options
  app.get<ById>(
    '/v1/responses/:id/input_items',
    { config: { bearer: true, limitReads: true }, ...UNCHECKED, schema: SCHEMAS.inputItems },
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
      return reply.header('content-type', JSON_TYPE).send(JSON.stringify(pageOf(items, query)))
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
