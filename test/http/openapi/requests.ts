/** Makes valid and invalid values from the schemas of the OpenAPI document, for the walk through all routes. */
import fc from 'fast-check'
import type { Answer } from '../../parley.ts'

type Schema = Answer['body']
/** The seed of generated values is fixed, so that failures can be reproduced. */
const SEED = 20260102

/**
 * Returns each example with one field at a time replaced by values that satisfy the field's schema.
 * @param each the number of values for each field
 */
export function variations(schema: Schema, examples: readonly unknown[], each: number): unknown[] {
  return examples.flatMap((example) =>
    placesIn(schema, example).flatMap(({ put, schema: own }) => made(own, each).map(put)),
  )
}

export function mistakes(schema: Schema, examples: readonly unknown[]): { about: string; body: unknown }[] {
  return examples.flatMap((example) =>
    placesIn(schema, example).flatMap(({ path, put, schema: own, value }) =>
      wrong(own, value).map(([about, bad]) => ({ about: `${path || 'the body'}: ${about}`, body: put(bad) })),
    ),
  )
}

export function wrongTexts({ enum: allowed, type, minimum, maximum }: Schema): string[] {
  if (allowed) return ['none-of-these', '']
  if (type !== 'integer' && type !== 'number') return []
  return [
    'x',
    '',
    ...(minimum === undefined ? [] : [String(minimum - 1)]),
    ...(maximum === undefined ? [] : [String(maximum + 1)]),
    ...(type === 'integer' ? ['1.5'] : []),
  ]
}

interface Place {
  readonly path: string
  readonly schema: Schema
  readonly value: unknown
  /** Returns the whole example with the given value in this place. */
  readonly put: (value: unknown) => unknown
}

function placesIn(
  schema: Schema,
  value: unknown,
  path = '',
  put = (given: unknown): unknown => given,
): Place[] {
  const here = { path, schema, value, put }
  if (schema.type === 'array' && Array.isArray(value)) {
    return [
      here,
      ...value.flatMap((item, at) =>
        placesIn(schema.items, item, `${path}[${at}]`, (given) => put(value.with(at, given))),
      ),
    ]
  }
  if (schema.type !== 'object' || !isRecord(value)) return [here]
  const inner = Object.entries<Schema>(schema.properties ?? {}).flatMap(([name, own]) =>
    placesIn(own, value[name], path === '' ? name : `${path}.${name}`, (given) =>
      put({ ...value, [name]: given }),
    ),
  )
  return [here, ...inner]
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function made(schema: Schema, count: number): unknown[] {
  return fc.sample(valid(schema), { numRuns: count, seed: SEED })
}

export function valid(schema: Schema): fc.Arbitrary<unknown> {
  const { type, minimum, exclusiveMinimum, maximum } = schema
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(valid))
  if (schema.enum) return fc.constantFrom(...schema.enum)
  switch (type) {
    case 'null':
      return fc.constant(null)
    case 'string':
      return fc.string({ minLength: schema.minLength ?? 0, maxLength: 40, unit: 'grapheme' })
    case 'boolean':
      return fc.boolean()
    case 'integer':
      return fc.integer({ min: minimum ?? -1000, max: maximum ?? 1000 })
    case 'number':
      return fc.double({
        min: minimum ?? exclusiveMinimum ?? -1000,
        max: maximum ?? 1000,
        minExcluded: exclusiveMinimum !== undefined,
        noNaN: true,
      })
    case 'array':
      return fc.array(valid(schema.items), { maxLength: 3 })
    case 'object':
      return validObject(schema)
    default:
      throw new Error(`requests are not made for ${JSON.stringify(schema)}`)
  }
}

function validObject({
  properties = {},
  required = [],
  additionalProperties,
}: Schema): fc.Arbitrary<unknown> {
  const named = fc.record(
    Object.fromEntries(Object.entries<Schema>(properties).map(([name, own]) => [name, valid(own)])),
    { requiredKeys: required, noNullPrototype: true },
  )
  if (!additionalProperties) return named
  const value = additionalProperties === true ? fc.jsonValue({ maxDepth: 2 }) : valid(additionalProperties)
  // JSON.parse makes this name an own property, but the objects of fast-check can't have it as one.
  const name = fc.string({ maxLength: 10 }).filter((text) => text !== '__proto__')
  const more = fc.dictionary(name, value, { maxKeys: 3, noNullPrototype: true })
  return fc.tuple(more, named).map(([some, own]) => ({ ...some, ...(own as object) }))
}

const OF_TYPES: Readonly<Record<string, unknown>> = {
  string: 'text',
  number: 1.5,
  boolean: true,
  object: { unknown: 1 },
  array: ['text'],
  null: null,
}

function typesOf({ anyOf, enum: allowed, type }: Schema): string[] {
  if (anyOf) return anyOf.flatMap(typesOf)
  return allowed ? ['string'] : [type]
}

function wrong(schema: Schema, value: unknown): [about: string, value: unknown][] {
  const { type, minimum, exclusiveMinimum, maximum, minLength, maxLength } = schema
  const types = typesOf(schema)
  const others = Object.entries(OF_TYPES).filter(([name]) => !types.includes(name))
  const found: [string, unknown][] = others.map(([name, other]) => [`is ${name}`, other])
  const allowed = schema.enum ?? schema.anyOf?.some((one: Schema) => one.enum)
  if (allowed) found.push(['is none of the values', 'none-of-these'])
  if (minimum !== undefined) found.push(['is too small', minimum - 0.5])
  if (exclusiveMinimum !== undefined) found.push(['is too small', exclusiveMinimum])
  if (maximum !== undefined) found.push(['is too large', maximum + 0.5])
  if (minLength > 0) found.push(['is too short', ''])
  if (maxLength !== undefined) found.push(['is too long', 'x'.repeat(maxLength + 1)])
  if (type === 'object' && isRecord(value)) {
    if (schema.additionalProperties === false) found.push(['has a field more', { ...value, unknown: 1 }])
    for (const name of schema.required ?? []) {
      const { [name]: _left, ...rest } = value
      found.push([`lacks ${name}`, rest])
    }
  }
  return found
}
