/**
 * Serves OpenAI's API below `/v1` to its official clients. Only this folder knows OpenAI's shapes; it knows neither SQL nor
 * model servers.
 *
 * - `config: { bearer: true }` requires an API key in `Authorization: Bearer`. With `translation`, a thread translates large
 *   bodies (`read-body.ts`) and puts the job into `request.largeBody`.
 * - Handlers throw a `FieldProblem`, a `V1Error` or another `HttpError`. The server sends every error below `/v1/` in OpenAI's
 *   shape, even if the path has no route. Handlers send errors that the caller did not cause with `sendV1Error`, because thrown
 *   errors may be delayed.
 * - `fields.ts` and `response-fields.ts` read requests; `answers.ts` writes responses; `held-creates.ts` creates jobs and waits
 *   for them.
 * - `batch-lines.ts` translates the lines of batches, which `batches/` runs. `upload.ts` stores files with `files/`.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { sendJson } from '../http/envelope.ts'
import { TEXT_JSON } from '../job/response-format.ts'
import type { Tier } from '../job/tier.ts'
import { Type } from '../typed-schema.ts'
import { answerOf, completionJson } from './answers.ts'
import { type BatchRoutes, batchesRoutes } from './batches.ts'
import { noSuchModel, sendV1Error } from './errors.ts'
import { type FileRoutes, fileRoutes } from './files.ts'
import { CHAT_FIELD_NAMES, type HeldCreates } from './held-creates.ts'
import {
  chatBody,
  chatCompletion,
  DOCUMENTED,
  errorResponses,
  modelList,
  oneModel,
  UNCHECKED,
} from './openapi.ts'
import { inputItemsRoute, type ResponseRoutes, responseRoutes } from './responses.ts'

export interface V1Options extends ChatRoute, BatchRoutes, FileRoutes, ModelRoutes {
  readonly store: BatchRoutes['store'] & ResponseRoutes['store']
  readonly reader: ResponseRoutes['reader']
  readonly actions: ResponseRoutes['actions']
}

export function v1Routes(app: FastifyInstance, options: V1Options): void {
  chatRoute(app, options)
  modelRoutes(app, options)
  responseRoutes(app, options)
  inputItemsRoute(app, options)
  fileRoutes(app, options)
  batchesRoutes(app, options)
}

interface ChatRoute {
  readonly creates: HeldCreates
  readonly bodyBytes: number
}

function chatRoute(app: FastifyInstance, { creates, bodyBytes }: ChatRoute): void {
  app.post(
    '/v1/chat/completions',
    {
      bodyLimit: bodyBytes,
      config: { bearer: true, translation: 'chat' },
      ...UNCHECKED,
      schema: {
        ...DOCUMENTED,
        operationId: 'createChatCompletion',
        summary: 'Create a chat completion',
        body: chatBody,
        response: { 200: chatCompletion, ...errorResponses },
      },
    },
    async (request, reply) => {
      const element = creates.elementOf(request)
      const { model } = element
      const isJson = element.responseFormatJson !== TEXT_JSON
      const held = await creates.hold(request, reply, { element, fieldNames: CHAT_FIELD_NAMES })
      if (held.kind === 'error') return sendV1Error(reply, held.error)
      const answer = answerOf(held.record, isJson)
      if (answer.kind === 'failed') return sendV1Error(reply, answer.error)
      const json = completionJson(held.record, model, answer)
      if (held.cacheHit) reply.header('x-cache', 'hit')
      return sendJson(reply, json)
    },
  )
}

interface ModelRoutes {
  readonly models: readonly string[]
  /** Models have no creation time, so responses show when this server started (Unix seconds). */
  readonly startedAt: number
}

const config = { bearer: true, limitReads: true } as const

function modelRoutes(app: FastifyInstance, { models, startedAt }: ModelRoutes): void {
  const allowed = (tier: Tier) => models.filter((name) => tier.models.has(name))
  const view = (id: string) => ({ id, object: 'model', created: startedAt, owned_by: 'parley' })

  const listed = {
    ...DOCUMENTED,
    operationId: 'listModels',
    summary: 'List the models that you may use',
    response: { 200: modelList, ...errorResponses },
  }
  app.get('/v1/models', { config, schema: listed }, (request, reply) => {
    const data = allowed(request.caller.tier).map(view)
    return sendJson(reply, JSON.stringify({ object: 'list', data }))
  })

  const retrieved = {
    ...DOCUMENTED,
    operationId: 'retrieveModel',
    summary: 'Retrieve a model',
    params: Type.Object({ model: Type.String() }),
    response: { 200: oneModel, ...errorResponses },
  }
  const answer = (model: string, { caller }: FastifyRequest, reply: FastifyReply) => {
    if (!allowed(caller.tier).includes(model)) throw noSuchModel(model)
    return sendJson(reply, JSON.stringify(view(model)))
  }
  app.get<{ Params: { model: string } }>(
    '/v1/models/:model',
    { config, schema: retrieved },
    (request, reply) => answer(request.params.model, request, reply),
  )
  // Some clients, such as version 4 of OpenAI's for Node, do not encode the `/` in `org/model`.
  app.get<{ Params: { '*': string } }>('/v1/models/*', { config }, (request, reply) =>
    answer(request.params['*'], request, reply),
  )
}
