/** GET /v1/models and GET /v1/models/{id}: the public models that the caller's tier may use. */
import type { FastifyInstance } from 'fastify'
import { JSON_TYPE } from '../http/envelope.ts'
import type { Tier } from '../job/tier.ts'
import { Type } from '../typed-schema.ts'
import { noSuchModel } from './errors.ts'

import { DOCUMENTED, errorResponses, modelList, oneModel } from './openapi.ts'

export interface ModelRoutes {
  readonly models: readonly string[]
  /** When this server started, in Unix seconds: models have no date of their own. */
  readonly startedAt: number
}

const config = { bearer: true, limitReads: true } as const

export function modelRoutes(app: FastifyInstance, { models, startedAt }: ModelRoutes): void {
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
