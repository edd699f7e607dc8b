/**
 * A schema library's schema for an answer: the JSON Schema that is sent for it, and what becomes of the answer that comes.
 */
import { ResponseContentError, SchemaError } from './errors.ts'
import type { EndedJob, Job, ResponseFormat, TimedOutJob } from './job.ts'
import type { StandardJSONSchemaV1, StandardSchemaV1 } from './standard-schema.ts'

export type AnswerSchema<T = unknown> = StandardSchemaV1<unknown, T>

type Describing = Partial<StandardJSONSchemaV1.Props>

/**
 * Gives a schema the JSON Schema that its library does not make by itself.
 *
 * ```ts
 * const River = withJsonSchema(v.object({ river: v.string() }), { type: 'object', properties: { river: { type: 'string' } } })
 * ```
 */
export function withJsonSchema<T>(schema: AnswerSchema<T>, jsonSchema: object): AnswerSchema<T> {
  const { vendor, validate } = schema['~standard']
  const described: AnswerSchema<T> = { '~standard': { version: 1, vendor, validate } }
  byHand.set(described, jsonSchema)
  return described
}

/** JSON Schemas that somebody wrote for a schema; they are sent as they are. */
const byHand = new WeakMap<AnswerSchema, object>()

/** Types a JSON Schema object by hand: what satisfies it comes as `T`, on your word. */
export function jsonSchema<T>(schema: object): AnswerSchema<T> {
  return withJsonSchema(
    { '~standard': { version: 1, vendor: 'parley-client', validate: (value) => ({ value: value as T }) } },
    schema,
  )
}

/** The schema of the library in this format, if it is one of a library. */
export function answerSchemaOf({ schema }: ResponseFormat): AnswerSchema | undefined {
  return schema !== undefined && '~standard' in schema ? (schema as AnswerSchema) : undefined
}

/** The job as it is sent: with JSON Schema in place of the library's schema. */
export function toSend<J extends { readonly response_format: ResponseFormat }>(job: J): J {
  const schema = answerSchemaOf(job.response_format)
  if (schema === undefined) return job
  return { ...job, response_format: { ...job.response_format, schema: jsonSchemaOf(schema) } }
}

function jsonSchemaOf(schema: AnswerSchema): object {
  const written = byHand.get(schema)
  if (written !== undefined) return written
  const { vendor, jsonSchema } = schema['~standard'] as AnswerSchema['~standard'] & Describing
  if (jsonSchema === undefined) {
    throw new SchemaError(
      `this schema of ${vendor} makes no JSON Schema (Standard JSON Schema); add one by withJsonSchema(schema, …)`,
    )
  }
  try {
    // What the model is to write is what the schema takes, not what it makes of it.
    return inWordsOfParley(jsonSchema.input({ target: 'draft-2020-12' })) as object
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new SchemaError(`${vendor} makes no JSON Schema of this schema: ${why}`, { cause })
  }
}

/** What holds schemas: one, several, or several by name. Elsewhere are values, which may look like schemas. */
const HOLDS_ONE = ['items', 'additionalProperties', 'propertyNames']
const HOLDS_MANY = ['anyOf', 'oneOf', 'allOf', 'prefixItems']
const HOLDS_NAMED = ['properties', '$defs', 'definitions', 'patternProperties']

/**
 * Libraries write unions as `oneOf` and records with `propertyNames` that any name satisfies; Parley knows neither word.
 * Nothing is lost: the library checks the answer itself.
 */
function inWordsOfParley(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return schema
  const said = Object.entries(schema)
    .filter(([keyword, value]) => keyword !== 'propertyNames' || !isAnyName(value))
    .map(([keyword, value]): [string, unknown] => {
      const word = keyword === 'oneOf' && !('anyOf' in schema) ? 'anyOf' : keyword
      if (HOLDS_ONE.includes(keyword)) return [word, inWordsOfParley(value)]
      if (HOLDS_MANY.includes(keyword) && Array.isArray(value)) return [word, value.map(inWordsOfParley)]
      if (!HOLDS_NAMED.includes(keyword)) return [word, value]
      const named = Object.entries(value as object).map(([name, inner]) => [name, inWordsOfParley(inner)])
      return [word, Object.fromEntries(named)]
    })
  return Object.fromEntries(said)
}

function isAnyName(value: unknown): boolean {
  return JSON.stringify(value) === '{"type":"string"}'
}

/** The job with the answer that the library makes of it. Throws `ResponseContentError` where it takes it not. */
export async function checked<T, J extends Job | EndedJob | TimedOutJob>(
  job: J,
  schema: AnswerSchema<T> | undefined,
): Promise<J> {
  if (schema === undefined || job.status !== 'completed') return job
  const content = job.result.response_content
  const verdict = await schema['~standard'].validate(content)
  if (verdict.issues) throw new ResponseContentError(job.job_id, verdict.issues, content)
  return { ...job, result: { ...job.result, response_content: verdict.value } }
}
