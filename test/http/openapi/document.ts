/** Reads the OpenAPI documents as a list of routes with their documented responses, and checks responses against them. */
import assert from 'node:assert/strict'
import { Check } from 'typebox/schema'
import type { Answer, Parley } from '../../parley.ts'

type Schema = Answer['body']

interface Media {
  readonly schema: Schema
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly schema: Schema
}

export interface Route {
  /** The name is the method and the path, such as `POST /admin/api/keys/{keyId}/revoke`. */
  readonly name: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly wants: 'apiKey' | 'adminToken' | null
  readonly parameters: readonly Parameter[]
  readonly body: { readonly schema: Schema; readonly required: boolean; readonly examples: unknown[] } | null
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Media>> }>>
}

export const CALLERS = '/openapi.json'
export const OPERATORS = '/admin/api/openapi.json'

export async function documentAt(parley: Parley, path: string): Promise<Schema> {
  const document = (await parley.get(path)).body
  return resolved(document, document)
}

function resolved(node: Schema, document: Schema): Schema {
  if (typeof node !== 'object' || node === null) return node
  if (Array.isArray(node)) return node.map((one) => resolved(one, document))
  if (typeof node.$ref === 'string') {
    const parts = node.$ref.split('/').slice(1)
    return resolved(
      parts.reduce((part: Schema, name: string) => part[name], document),
      document,
    )
  }
  return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, resolved(value, document)]))
}

export async function documentedRoutes(parley: Parley): Promise<readonly Route[]> {
  const documents = await Promise.all([CALLERS, OPERATORS].map((path) => documentAt(parley, path)))
  return documents.flatMap(routesOf)
}

function routesOf({ paths }: Schema): Route[] {
  return Object.entries<Schema>(paths).flatMap(([path, methods]) =>
    Object.entries<Schema>(methods).map(([lower, { security, parameters, requestBody, responses }]) => {
      const method = lower.toUpperCase() as Route['method']
      const media = requestBody?.content['application/json']
      const [wants = null] = Object.keys(security?.[0] ?? {}) as ('apiKey' | 'adminToken')[]
      const body = media && {
        schema: media.schema,
        required: requestBody.required === true,
        examples: examplesOf(media),
      }
      return {
        name: `${method} ${path}`,
        method,
        path,
        wants,
        parameters: parameters ?? [],
        body: body ?? null,
        responses,
      }
    }),
  )
}

export function examplesOf({ example, examples }: Media): unknown[] {
  const several = Object.values(examples ?? {}).map(({ value }) => value)
  return example === undefined ? several : [example, ...several]
}

export function conforms(
  { name, responses }: Route,
  about: string,
  { status, headers, body, text }: Answer,
): void {
  const description = `${name}, ${about}, ${status}: ${text.slice(0, 300)}`
  const response = responses[status]
  assert.ok(response, `the status is not documented: ${description}`)
  const type = (headers.get('content-type') ?? '').split(';', 1)[0] ?? ''
  const media = response.content?.[type]
  assert.ok(media, `${type} is not documented: ${description}`)
  assert.ok(
    Check(closed(media.schema), type === 'application/json' ? body : text),
    `another shape: ${description}`,
  )
}

/** Makes fields invalid that the schema does not name, in all of its objects. */
export function closed(schema: Schema): Schema {
  if (typeof schema !== 'object' || schema === null) return schema
  if (Array.isArray(schema)) return schema.map(closed)
  const inner = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, closed(value)]))
  const open = inner.properties !== undefined && inner.additionalProperties === undefined
  return open ? { ...inner, additionalProperties: false } : inner
}
