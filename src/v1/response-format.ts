/** Reads the format of an answer: `text`, `json_object`, or `json_schema` with a name and a schema. */

import { FieldProblem } from '../job/field-problem.ts'
import type { SingleCreate } from '../job/request.ts'
import { type FieldPolicy, isObject, supportedFields } from './fields.ts'

const TEXT_FORMAT: SingleCreate['response_format'] = { format: 'text' }

const OUTER: FieldPolicy = { supported: ['type', 'json_schema'], ignored: [], neutral: {} }
/** Answers are always checked against the schema, with or without `strict`. */
const INNER: FieldPolicy = {
  supported: ['type', 'schema'],
  ignored: ['name', 'description', 'strict'],
  neutral: {},
}

/**
 * @param field the route's name for the format. Chat completions have the schema in `json_schema`, other routes have it
 * directly.
 */
export function formatOf(given: unknown, field: string): SingleCreate['response_format'] {
  if (given === undefined) return TEXT_FORMAT
  const isNested = isObject(given) && isObject(given.json_schema)
  const { type, json_schema, schema } = supportedFields(given, isNested ? OUTER : INNER, field)
  switch (type) {
    case 'text':
      return TEXT_FORMAT
    case 'json_object':
      return { format: 'json' }
    case 'json_schema': {
      const inner = isNested ? supportedFields(json_schema, INNER, `${field}.json_schema`).schema : schema
      if (inner === undefined) return { format: 'json' }
      if (!isObject(inner))
        throw new FieldProblem(`${field}${isNested ? '.json_schema' : ''}.schema`, 'must be an object')
      return { format: 'json', schema: inner }
    }
    default:
      throw new FieldProblem(`${field}.type`, 'must be one of text, json_object, json_schema')
  }
}
