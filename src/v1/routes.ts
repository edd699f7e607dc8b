/**
 * OpenAI's API below `/v1`, for its official clients: this folder translates both ways between that API and jobs. Nothing
 * behind it knows OpenAI's shapes, and nothing in it knows SQL or model servers.
 *
 * - A route has `config: { bearer: true }`: its key is an API key, sent as `Authorization: Bearer`. The server has checked it,
 *   the body is parsed JSON (`request.body`), and `request.caller` is known. With `translation`, a thread reads large bodies
 *   (`read-body.ts`), and the job is in `request.largeBody`.
 * - Errors: throw a `FieldProblem` or a `V1Error` (`errors.ts`), or let any `HttpError` of the shared code pass: below `/v1/` the
 *   server sends all of them in OpenAI's shape, with `x-should-retry` and `retry-after-ms`, also those before a route is found. An
 *   error that is not the caller's fault, such as a failed job, is sent with `sendV1Error`, because thrown errors are paced.
 * - `fields.ts` decides which fields are supported, ignored, or accepted with a neutral value.
 * - `fields.ts` reads conversations, options and formats, `answers.ts` the outcome of a job.
 * - `held-creates.ts`: `create` stores a job, `hold` also waits until it has ended or the server must answer (408).
 * - `batches.ts` has the routes of batches, `batch-lines.ts` the shape of their lines. `batches/` runs them.
 * - `upload.ts` and `multipart.ts`: a file is stored while it arrives. `files/` knows nothing of OpenAI's shapes.
 */
import type { FastifyInstance } from 'fastify'
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
  /** When this server started, in Unix seconds: models have no date of their own. */
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
  app.get<{ Params: { model: string } }>(
    '/v1/models/:model',
    { config, schema: retrieved },
    (request, reply) => {
      const { model } = request.params
      if (!allowed(request.caller.tier).includes(model)) throw noSuchModel(model)
      return reply.header('content-type', JSON_TYPE).send(JSON.stringify(view(model)))
    },
  )
}
