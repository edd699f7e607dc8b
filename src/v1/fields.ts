/**
 * Decides which fields a request may have. Fields that cannot change the answer are ignored, such as `metadata`. Unsupported
 * fields that would change it are rejected by name. Null, and any value that changes nothing, is always accepted, because
 * frameworks send them: `stream: false`, `n: 1`, `tools: []`.
 */
import { FieldProblem } from '../job/field-problem.ts'

export type Fields = Readonly<Record<string, unknown>>

export interface FieldPolicy {
  readonly supported: readonly string[]
  readonly ignored: readonly string[]
  /** Fields that are not supported, each with the values that change nothing. */
  readonly neutral: Readonly<Record<string, (value: unknown) => boolean>>
}

/** Fields of several routes that do not change the answer. */
export const IGNORED: readonly string[] = [
  'store',
  'user',
  'service_tier',
  'safety_identifier',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
]

export const is =
  (...values: readonly unknown[]) =>
  (value: unknown): boolean =>
    values.includes(value)
export const isEmpty = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0
export const isAnything = (): boolean => true

/** Returns the supported fields of an object that are not null. @param path names the object in errors; empty for the body */
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
  for (const [name, field] of Object.entries(value)) {
    if (field === null || field === undefined) continue
    if (supported.includes(name)) fields[name] = field
    else if (!ignored.includes(name) && !(Object.hasOwn(neutral, name) && neutral[name]?.(field))) {
      throw new FieldProblem(path === '' ? name : `${path}.${name}`, 'is not supported with this value')
    }
  }
  return fields
}

export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
