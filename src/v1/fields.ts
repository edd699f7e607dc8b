/**
 * Reads the fields that the routes of `/v1` share: options, formats and messages. Fields that cannot change the answer, such as
 * `user`, are ignored. Unsupported fields that would change the answer are rejected by name. Null values are accepted, and so
 * are neutral values such as `stream: false`, because frameworks send them.
 */

import { Ajv, type ValidateFunction } from 'ajv'
import { FieldProblem } from '../job/field-rules.ts'
import { type Message, ROLES, type Role } from '../job/job.ts'
import { type JobOptions, jobOptions, OPTION_NAMES } from '../job/options.ts'
import type { SingleCreate } from '../job/request.ts'
import { ANY_OBJECT } from '../job/response-format.ts'
import { isObject } from '../json-object.ts'

export type Fields = Readonly<Record<string, unknown>>

export interface FieldPolicy {
  readonly supported: readonly string[]
  readonly ignored: readonly string[]
  /**
   * Returns whether a value is neutral: it does not change the answer. Unsupported fields can have neutral values, too. Of
   * several fields that must be rejected, the error names the one that comes first here.
   */
  readonly neutral: Readonly<Record<string, (value: unknown) => boolean>>
}

/** Chat completions and responses ignore these fields. A name that ends with `_` stands for all fields that begin with it. */
export const IGNORED: readonly string[] = [
  'store',
  'user',
  'service_tier',
  'safety_identifier',
  'prompt_cache_',
]

const LONGEST_NAME = 80

export const is =
  (...values: readonly unknown[]) =>
  (value: unknown): boolean =>
    values.includes(value)
export const isEmpty = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0
export const isAnything = (): boolean => true

/**
 * Throws a `FieldProblem` for an unsupported field. Drops null and neutral values.
 * @param path the path of the object in errors; empty for the body
 */
export function supportedFields(
  value: unknown,
  { supported, ignored, neutral }: FieldPolicy,
  path = '',
): Fields {
  if (!isObject(value)) {
    throw path === ''
      ? new FieldProblem('the body', 'must be a JSON object')
      : new FieldProblem(path, 'must be an object')
  }
  const fields: Record<string, unknown> = {}
  let unsupported: string | null = null
  for (const [name, field] of Object.entries(value)) {
    if (field === null || field === undefined) continue
    if (Object.hasOwn(neutral, name) && neutral[name]?.(field)) continue
    if (supported.includes(name)) fields[name] = field
    else if (!isIgnored(name, ignored)) unsupported = firstOf(unsupported, name, neutral)
  }
  if (unsupported === null) return fields
  const shown = unsupported.slice(0, LONGEST_NAME)
  throw new FieldProblem(path === '' ? shown : `${path}.${shown}`, 'is not supported with this value')
}

/** Returns the name that comes first in the policy. Other names come last, in the order of the request. */
function firstOf(earlier: string | null, name: string, neutral: FieldPolicy['neutral']): string {
  if (earlier === null) return name
  if (!Object.hasOwn(neutral, name)) return earlier
  return Object.keys(neutral).find((one) => one === earlier || one === name) ?? earlier
}

function isIgnored(name: string, ignored: FieldPolicy['ignored']): boolean {
  return ignored.some((one) => one === name || (one.endsWith('_') && name.startsWith(one)))
}

let validate: ValidateFunction | undefined

/** @param names the names of options in the request, if they differ */
export function optionsOf(
  fields: Fields,
  names: Readonly<Partial<Record<keyof JobOptions, string>>>,
): JobOptions {
  const given: Record<string, unknown> = {}
  for (const name of OPTION_NAMES) {
    const value = fields[names[name] ?? name]
    if (value !== undefined) given[name] = value
  }
  validate ??= new Ajv().compile(jobOptions)
  if (!validate(given)) {
    const [first] = validate.errors ?? []
    const name = (first?.instancePath.split('/')[1] ?? '') as keyof JobOptions
    const rule =
      first?.keyword === 'enum' ? `must be one of ${first.params.allowedValues.join(', ')}` : first?.message
    throw new FieldProblem(names[name] ?? name, rule ?? 'is not valid')
  }
  return given
}

const TEXT_FORMAT: SingleCreate['response_format'] = { format: 'text' }

const OUTER: FieldPolicy = { supported: ['type', 'json_schema'], ignored: [], neutral: {} }
/** `strict` is ignored, because Parley always checks answers against the schema. */
const INNER: FieldPolicy = {
  supported: ['type', 'schema'],
  ignored: ['name', 'description', 'strict'],
  neutral: {},
}

/** @param field the path of the format in errors */
export function formatOf(given: unknown, field: string): SingleCreate['response_format'] {
  if (given === undefined) return TEXT_FORMAT
  const isNested = isObject(given) && isObject(given.json_schema)
  const { type, json_schema, schema } = supportedFields(given, isNested ? OUTER : INNER, field)
  switch (type) {
    case 'text':
      return TEXT_FORMAT
    // Fireworks, Together and llama.cpp accept a schema with `json_object`, and the library instructor sends it.
    case 'json_object':
    case 'json_schema': {
      const inner = isNested ? supportedFields(json_schema, INNER, `${field}.json_schema`).schema : schema
      if (inner === undefined && type === 'json_object') return { format: 'json', schema: ANY_OBJECT }
      if (inner === undefined) return { format: 'json' }
      if (!isObject(inner))
        throw new FieldProblem(`${field}${isNested ? '.json_schema' : ''}.schema`, 'must be an object')
      return { format: 'json', schema: inner }
    }
    default:
      throw new FieldProblem(`${field}.type`, 'must be one of text, json_object, json_schema')
  }
}

/** Clients send back messages from earlier answers. Their additional fields do not change the next answer. */
const MESSAGE: FieldPolicy = {
  supported: ['role', 'content', 'name'],
  ignored: ['parsed'],
  neutral: { refusal: isAnything, annotations: isEmpty, tool_calls: isEmpty },
}

export function messagesOf(given: unknown, field: string): Message[] {
  if (!Array.isArray(given)) throw new FieldProblem(field, 'must be an array')
  const names: Names = new Map()
  return given.map((message, at) => messageOf(message, `${field}[${at}]`, names))
}

/** Maps roles to names. Models do not see names, so names must not distinguish participants of one role. */
type Names = Map<unknown, unknown>

function messageOf(given: unknown, field: string, names: Names): Message {
  const { role, content, name } = supportedFields(given, MESSAGE, field)
  if (!ROLES.includes(role as Role))
    throw new FieldProblem(`${field}.role`, `must be one of ${ROLES.join(', ')}`)
  if (!names.has(role)) names.set(role, name)
  else if (names.get(role) !== name)
    throw new FieldProblem(`${field}.name`, `must be the same in all messages with the role ${role}`)
  return { role: role as Role, content: textOf(content, `${field}.content`) }
}

/** @param types which `type` a part with text may have */
export function textOf(content: unknown, field: string, types: readonly string[] = ['text']): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) throw new FieldProblem(field, 'must be a string or an array of text parts')
  const texts = content.map((part: unknown, at) => {
    const { type, text } = isObject(part) ? part : {}
    if (!types.includes(String(type)))
      throw new FieldProblem(`${field}[${at}].type`, `must be ${types.join(' or ')}`)
    if (typeof text !== 'string') throw new FieldProblem(`${field}[${at}].text`, 'must be a string')
    return text
  })
  return texts.join('\n')
}
