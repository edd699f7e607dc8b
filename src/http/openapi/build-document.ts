/**
 * Builds an OpenAPI 3.1 document from the declared routes, with the schemas that validate their requests. The callback (SPEC
 * §6) becomes a webhook.
 */
import type { FastifyInstance, FastifySchema, RouteOptions } from 'fastify'
import { isObject, type JsonObject } from '../../json-object.ts'
import { Type } from '../../typed-schema.ts'
import { isBodyRequired } from '../json-body.ts'
import { EXAMPLE_JOB_ID, exampleCallbacks } from './examples.ts'
import { callbackEvent } from './job-schemas.ts'
import { errors, REQUEST_ID } from './schemas.ts'

declare module 'fastify' {
  interface FastifySchema {
    /** Generated clients use this name, which is unique in its document. A route without a name is not documented. */
    operationId?: string
    /** The summary is one line without a full stop. */
    summary?: string
    description?: string
    tags?: readonly string[]
    /** The names are those of security schemes. The list is empty if the route needs no authentication. */
    security?: readonly Readonly<Record<string, readonly string[]>>[]
  }
}

export interface DeclaredOperation {
  /** The method is in lower case, such as `get`. */
  readonly method: string
  /** The path has `{name}` for each parameter. */
  readonly path: string
  readonly schema: FastifySchema
}

/** Collects the routes that are declared after this call. Returns a function that lists them, with later changes by hooks. */
export function declaredOperations(app: FastifyInstance): () => DeclaredOperation[] {
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route: RouteOptions) => void routes.push(route))
  return () =>
    routes.flatMap(({ method, url, schema }) => {
      if (schema?.operationId === undefined) return []
      // Fastify adds a HEAD route to each GET route. HEAD routes are not documented.
      const methods = [method].flat().filter((one) => one !== 'HEAD')
      const path = url.replaceAll(/:(\w+)/g, '{$1}')
      return methods.map((one) => ({ method: one.toLowerCase(), path, schema }))
    })
}

export interface DocumentOptions {
  readonly title: string
  readonly description: string
  readonly version: string
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly securitySchemes: JsonObject
  readonly operations: readonly DeclaredOperation[]
  readonly webhooks?: Readonly<Record<string, DeclaredOperation>>
}

const JSON_MEDIA = 'application/json'
/** Any request can get these statuses, because of its headers or its method or the state of the server. */
const ANY_REQUEST = [400, 405, 408, 431, 503]

export function buildDocument(options: DocumentOptions): JsonObject {
  const { title, description, version, tags, securitySchemes, operations, webhooks = {} } = options
  const components = new Components()
  const paths: Record<string, Record<string, JsonObject>> = {}
  for (const { method, path, schema } of operations) {
    const response = { ...errors(...ANY_REQUEST), ...(schema.response as JsonObject) }
    paths[path] = { ...paths[path], [method]: operationOf({ ...schema, response }, components) }
  }
  const hooks = mapValues(webhooks, (hook) => {
    const { method, schema } = hook as DeclaredOperation
    return { [method]: operationOf(schema, components) }
  })
  return {
    openapi: '3.1.0',
    info: { title, description, version, license: { name: 'MIT', identifier: 'MIT' } },
    servers: [{ url: '/' }],
    tags,
    paths,
    ...(Object.keys(hooks).length > 0 && { webhooks: hooks }),
    components: {
      securitySchemes,
      schemas: sorted(components.schemas),
      responses: sorted(components.responses),
      headers: sorted(components.headers),
    },
  }
}

function operationOf(schema: DeclaredOperation['schema'], components: Components): JsonObject {
  const { operationId, summary, description, tags, security = [], body, response } = schema
  const parameters = [
    ...parametersOf('path', schema.params, components),
    ...parametersOf('query', schema.querystring, components),
    ...parametersOf('header', schema.headers, components),
  ]
  return {
    operationId,
    summary,
    ...(description !== undefined && { description }),
    tags,
    security,
    ...(parameters.length > 0 && { parameters }),
    ...(isObject(body) && { requestBody: requestBody(body, components) }),
    responses: mapValues(response as JsonObject, (one) => responseOf(one as JsonObject, components)),
  }
}

function parametersOf(place: string, given: unknown, components: Components): JsonObject[] {
  if (!isObject(given) || !isObject(given.properties)) return []
  const required = Array.isArray(given.required) ? given.required : []
  return Object.entries(given.properties).map(([name, property]) => {
    const { examples, ...own } = property as JsonObject
    const schema = components.schema(own)
    return {
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      ...(schema.description !== undefined && { description: schema.description }),
      // The routes also accept a repeated parameter. Generated clients use commas.
      ...(schema.type === 'array' && { style: 'form', explode: false }),
      ...(schema.type === 'object' && { style: 'deepObject', explode: true }),
      schema: withoutDescription(schema),
      ...(Array.isArray(examples) && { example: examples[0] }),
    }
  })
}

function withoutDescription({ description: _description, ...schema }: JsonObject): JsonObject {
  return schema
}

function requestBody({ examples, content, ...schema }: JsonObject, components: Components): JsonObject {
  if (isObject(content)) return { required: true, content }
  return { required: isBodyRequired(schema), content: { [JSON_MEDIA]: media(schema, examples, components) } }
}

function responseOf(given: JsonObject, components: Components): JsonObject {
  const { description, headers, examples, responseName, content, ...schema } = given
  const response = {
    description,
    headers: {
      'x-request-id': components.header('RequestId', REQUEST_ID),
      ...mapValues(isObject(headers) ? headers : {}, (header) => headerOf(header as JsonObject)),
    },
    content: isObject(content) ? content : { [JSON_MEDIA]: media(schema, examples, components) },
  }
  return typeof responseName === 'string' ? components.response(responseName, response) : response
}

function headerOf({ description, ...schema }: JsonObject): JsonObject {
  return { description, schema }
}

function media(schema: JsonObject, examples: unknown, components: Components): JsonObject {
  const given = Array.isArray(examples) ? examples : []
  const named = given.map((value, at) => [`example${at + 1}`, { value }])
  return {
    schema: components.schema(schema),
    ...(named.length > 0 && { examples: Object.fromEntries(named) }),
  }
}

function sorted(parts: Readonly<Record<string, JsonObject>>): JsonObject {
  return Object.fromEntries(Object.entries(parts).sort(([a], [b]) => (a < b ? -1 : 1)))
}

const SIGNED = 'docs/callbacks.md explains how to verify it.'

const headers = Type.Object({
  'webhook-id': Type.String({
    format: 'uuid',
    description: 'The job ID. It is the same in each attempt.',
    examples: [EXAMPLE_JOB_ID],
  }),
  'webhook-timestamp': Type.String({
    pattern: '^[0-9]+$',
    description: 'When this attempt was signed (Unix seconds).',
    examples: ['1795232760'],
  }),
  'webhook-signature': Type.String({
    description: `One or more signatures according to Standard Webhooks, separated by spaces. ${SIGNED}`,
    examples: ['v1,Jm9yIGV4YW1wbGUgb25seSwgbm90IGEgc2lnbmF0dXJl'],
  }),
})

const received = (description: string) => ({ description, content: {} })

/** A receiver gets this request (SPEC §6). */
export const jobEndedWebhook: DeclaredOperation = {
  method: 'post',
  path: '',
  schema: {
    operationId: 'jobEnded',
    summary: 'A job with a callback has finished',
    description:
      'Sent to `callback_url` with your `callback_headers` when the job finishes, and retried until you respond with a 2xx status. Expect duplicates.',
    tags: ['Jobs'],
    security: [],
    headers,
    body: { ...callbackEvent, examples: exampleCallbacks },
    response: {
      '2XX': received('The callback is delivered. Parley does not read the response body.'),
      410: received('The receiver is gone. The callback fails permanently.'),
      '4XX': received('The callback is retried later. After 429, not before the time in your `Retry-After`.'),
      '5XX': received(
        'The callback is retried later. After 502, 503 and 504, not before the time in your `Retry-After`.',
      ),
    },
  },
}

/** The value of each of these keywords is a schema or a list of schemas. */
const SCHEMA_KEYWORDS = ['items', 'additionalProperties', 'anyOf', 'oneOf', 'allOf']
/** `Type.Record` writes this pattern for arbitrary names, but many generators support only `additionalProperties`. */
const ANY_NAME = '^.*$'

/** All uses of a schema with a `title` refer to one component, so that generated clients have one type for it. */
class Components {
  readonly schemas: Record<string, JsonObject> = {}
  readonly responses: Record<string, JsonObject> = {}
  readonly headers: Record<string, JsonObject> = {}

  /** Throws if two different schemas have the same title. */
  schema(given: JsonObject): JsonObject {
    const { title } = given
    const schema = this.#inline(given)
    if (typeof title !== 'string') return schema
    return this.#named('schemas', title, schema)
  }

  response(name: string, response: JsonObject): JsonObject {
    return this.#named('responses', name, response)
  }

  header(name: string, header: JsonObject): JsonObject {
    return this.#named('headers', name, header)
  }

  #named(kind: 'schemas' | 'responses' | 'headers', name: string, part: JsonObject): JsonObject {
    const known = this[kind][name]
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(part)) {
      throw new Error(`two different ${kind} of the OpenAPI document are named ${name}`)
    }
    this[kind][name] = part
    return { $ref: `#/components/${kind}/${name}` }
  }

  #inline({ title: _title, properties, patternProperties, ...rest }: JsonObject): JsonObject {
    const schema = withoutDefault(rest)
    if (isObject(properties)) schema.properties = mapValues(properties, (value) => this.#any(value))
    if (isObject(patternProperties)) schema.additionalProperties = patternProperties[ANY_NAME]
    for (const keyword of SCHEMA_KEYWORDS) {
      if (schema[keyword] !== undefined) schema[keyword] = this.#any(schema[keyword])
    }
    // Discriminators use `const`, which generators for OpenAPI 3.0 do not know.
    if (schema.const !== undefined) {
      schema.enum = [schema.const]
      delete schema.const
    }
    const { enum: values } = schema
    const areTexts = Array.isArray(values) && values.every((value) => typeof value === 'string')
    return areTexts && schema.type === undefined ? { type: 'string', ...schema } : schema
  }

  #any(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.#any(one))
    return isObject(value) ? this.schema(value) : value
  }
}

/** The default goes into the description, because openapi-typescript makes a field with a `default` required. */
function withoutDefault({ default: byDefault, ...schema }: JsonObject): Record<string, unknown> {
  if (byDefault === undefined) return schema
  const description = typeof schema.description === 'string' ? `${schema.description} ` : ''
  return { ...schema, description: `${description}Default: ${JSON.stringify(byDefault)}.` }
}

export function mapValues<T>(object: JsonObject, map: (value: unknown) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, map(value)]))
}
