/**
 * OpenAI's API below `/v1`, for its official clients. This folder translates between that API and jobs, in both directions. No
 * code behind it knows OpenAI's shapes, and no code in it knows SQL or model servers.
 *
 * - `config: { bearer: true }` makes a route require an API key in `Authorization: Bearer`. When its handler runs, the key has
 *   been checked, `request.caller` is set, and `request.body` is parsed JSON. With `translation`, a thread reads large bodies
 *   (`read-body.ts`), and the job is in `request.largeBody`.
 * - Handlers throw a `FieldProblem`, a `V1Error` (`errors.ts`) or any `HttpError`. Below `/v1/`, the server sends each error in
 *   OpenAI's shape, with `x-should-retry` and `retry-after-ms`, even if the path has no route. Errors that the caller did not
 *   cause, such as a failed job, are sent with `sendV1Error`, because thrown errors may be delayed.
 * - `fields.ts` decides which fields are supported, ignored, or accepted with neutral values. It also reads conversations,
 *   options and formats. `answers.ts` reads the outcome of a job.
 * - `held-creates.ts`: `create` stores a job; `hold` also waits until the job has finished or the server must respond (408).
 * - `batches.ts` has the routes of batches, `batch-lines.ts` the shape of their lines. `batches/` runs them.
 * - `upload.ts` and `multipart.ts` store a file while it arrives. `files/` knows nothing of OpenAI's shapes.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { JSON_TYPE } from '../http/envelope.ts'
import type { Tier } from '../job/tier.ts'
import { Type } from '../typed-schema.ts'
import { type BatchRoutes, batchesRoutes } from './batches.ts'
import { type ChatRoute, chatRoute } from './chat-completions.ts'
import { noSuchModel } from './errors.ts'
import { type FileRoutes, fileRoutes } from './files.ts'
import { DOCUMENTED, errorResponses, modelList, oneModel } from './openapi.ts'
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

interface ModelRoutes {
  readonly models: readonly string[]
  /** When this server started, in Unix seconds: the creation time of all models, which have none of their own. */
  readonly startedAt: number
}

const config = { bearer: true, limitReads: true } as const

/** GET /v1/models and GET /v1/models/{id}: the public models that the caller's tier may use. */
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
    return reply.header('content-type', JSON_TYPE).send(JSON.stringify({ object: 'list', data }))
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
    return reply.header('content-type', JSON_TYPE).send(JSON.stringify(view(model)))
  }
  app.get<{ Params: { model: string } }>(
    '/v1/models/:model',
    { config, schema: retrieved },
    (request, reply) => answer(request.params.model, request, reply),
  )
  // Older clients, such as version 4 of OpenAI's for Node, do not encode the `/` in `org/model`.
  app.get<{ Params: { '*': string } }>('/v1/models/*', { config }, (request, reply) =>
    answer(request.params['*'], request, reply),
  )
}
