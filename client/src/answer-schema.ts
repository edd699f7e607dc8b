/** Converts the schema of a schema library to the JSON Schema that is sent, and validates answers with the library. */
import { ResponseContentError, SchemaError } from './errors.ts'
import type { EndedJob, Job, ResponseFormat, TimedOutJob } from './job.ts'
import type { StandardJSONSchemaV1, StandardSchemaV1 } from './standard-schema.ts'

export type AnswerSchema<T = unknown> = StandardSchemaV1<unknown, T>

type JsonSchemaProps = Partial<StandardJSONSchemaV1.Props>

/**
 * Adds a JSON Schema to a schema whose library cannot generate one.
 *
 * ```ts
 * const River = withJsonSchema(v.object({ river: v.string() }), { type: 'object', properties: { river: { type: 'string' } } })
 * ```
 */
export function withJsonSchema<T>(schema: AnswerSchema<T>, jsonSchema: object): AnswerSchema<T> {
  const { vendor, validate } = schema['~standard']
  const extended: AnswerSchema<T> = { '~standard': { version: 1, vendor, validate } }
  handWritten.set(extended, jsonSchema)
  return extended
}

/** Callers wrote these JSON Schemas, so they are sent unchanged. */
const handWritten = new WeakMap<AnswerSchema, object>()

/** Declares the type of answers that satisfy this JSON Schema. The client does not check that the type matches the schema. */
export function jsonSchema<T>(schema: object): AnswerSchema<T> {
  return withJsonSchema(
    { '~standard': { version: 1, vendor: 'parley-client', validate: (value) => ({ value: value as T }) } },
    schema,
  )
}

export function answerSchemaOf({ schema }: ResponseFormat): AnswerSchema | undefined {
  return schema !== undefined && '~standard' in schema ? (schema as AnswerSchema) : undefined
}

/** Replaces a library's schema by its JSON Schema, so that the job can be sent. */
export function serializable<J extends { readonly response_format: ResponseFormat }>(job: J): J {
  const schema = answerSchemaOf(job.response_format)
  if (schema === undefined) return job
  return { ...job, response_format: { ...job.response_format, schema: jsonSchemaOf(schema) } }
}

function jsonSchemaOf(schema: AnswerSchema): object {
  const written = handWritten.get(schema)
  if (written !== undefined) return written
  const { vendor, jsonSchema } = schema['~standard'] as AnswerSchema['~standard'] & JsonSchemaProps
  if (jsonSchema === undefined) {
    throw new SchemaError(
      `this ${vendor} schema cannot generate a JSON Schema (Standard JSON Schema); add one with withJsonSchema(schema, …)`,
    )
  }
  try {
    // The library may transform values. The model must write the value before the transformation, which is the schema's input.
    return toEnforceable(jsonSchema.input({ target: 'draft-2020-12' })) as object
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new SchemaError(`${vendor} cannot generate a JSON Schema for this schema: ${why}`, { cause })
  }
}

/**
 * The value of these keywords is a schema, a list of schemas, or schemas by name. The values of other keywords, such as
 * `const`, may look like schemas but must not be converted.
 */
const HOLDS_ONE = ['items', 'additionalProperties', 'propertyNames']
const HOLDS_MANY = ['anyOf', 'oneOf', 'allOf', 'prefixItems']
const HOLDS_NAMED = ['properties', '$defs', 'definitions', 'patternProperties']

/**
 * Many model servers do not enforce two keywords that libraries generate: `oneOf` for unions, and `propertyNames` for records.
 * They enforce `anyOf`, and a `propertyNames` that any name satisfies has no effect. The conversion is safe, because the
 * library validates the answer anyway.
 */
function toEnforceable(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return schema
  const converted = Object.entries(schema)
    .filter(([keyword, value]) => keyword !== 'propertyNames' || !isAnyName(value))
    .map(([keyword, value]): [string, unknown] => {
      const enforceable = keyword === 'oneOf' && !('anyOf' in schema) ? 'anyOf' : keyword
      if (HOLDS_ONE.includes(keyword)) return [enforceable, toEnforceable(value)]
      if (HOLDS_MANY.includes(keyword) && Array.isArray(value)) return [enforceable, value.map(toEnforceable)]
      if (!HOLDS_NAMED.includes(keyword)) return [enforceable, value]
      const named = Object.entries(value as object).map(([name, inner]) => [name, toEnforceable(inner)])
      return [enforceable, Object.fromEntries(named)]
    })
  return Object.fromEntries(converted)
}

function isAnyName(value: unknown): boolean {
  return JSON.stringify(value) === '{"type":"string"}'
}

/**
 * Returns the job with the answer as the library has validated and transformed it. Throws `ResponseContentError` if the answer
 * is not valid.
 */
export async function withCheckedAnswer<T, J extends Job | EndedJob | TimedOutJob>(
  job: J,
  schema: AnswerSchema<T> | undefined,
): Promise<J> {
  if (schema === undefined || job.status !== 'completed') return job
  const content = job.result.response_content
  const verdict = await schema['~standard'].validate(content)
  if (verdict.issues) throw new ResponseContentError(job.job_id, verdict.issues, content)
  return { ...job, result: { ...job.result, response_content: verdict.value } }
}
