/** Builds an OpenAPI 3.1 document from the declared routes, using the same schemas that validate their requests. */
import { isBodyRequired } from '../json-body.ts'
import { Components, isObject, type JsonObject, mapValues } from './components.ts'
import type { DeclaredOperation } from './declared-operations.ts'
import { errors, REQUEST_ID } from './schemas.ts'

export interface DocumentOptions {
  readonly title: string
  readonly description: string
  readonly version: string
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly securitySchemes: JsonObject
  readonly operations: readonly DeclaredOperation[]
  /** By name, with schemas in the form that routes use. */
  readonly webhooks?: Readonly<Record<string, DeclaredOperation>>
}

const JSON_MEDIA = 'application/json'
/** Responses that any request can get because of its headers, its method or the state of the server. */
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

/** Each property is a parameter; its first example becomes the parameter's example. */
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
      // Clients generated from this separate values by commas; the routes also accept a repeated parameter.
      ...(schema.type === 'array' && { style: 'form', explode: false }),
      schema: withoutDescription(schema),
      ...(Array.isArray(examples) && { example: examples[0] }),
    }
  })
}

function withoutDescription({ description: _description, ...schema }: JsonObject): JsonObject {
  return schema
}

function requestBody({ examples, ...schema }: JsonObject, components: Components): JsonObject {
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
