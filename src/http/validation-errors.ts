/** Converts an error of Ajv to the details of a 400: the element, the field and the rule. */
import type { FastifySchemaValidationError } from 'fastify'
import { BELONGS } from '../job/request.ts'

/** Errors show at most this many characters of a field name, because a caller may choose a very long one. */
const LONGEST_NAME = 80

/** Returns a text such as `jobs[1].messages[0].role: must be one of …`. */
export function validationError(error: FastifySchemaValidationError): string {
  const path = error.instancePath.split('/').slice(1).map(unescapePointer)
  const params = error.params as Record<string, unknown>
  const inner = innerName(error.keyword, params)
  if (inner !== null) path.push(inner)
  return `${pathText(path)}${ruleOf(error, params, path)}`
}

/** For a missing or unknown property, Ajv reports only the path of its object. Returns null for other errors. */
function innerName(keyword: string, params: Record<string, unknown>): string | null {
  if (keyword === 'required') return String(params.missingProperty)
  if (keyword === 'additionalProperties') return String(params.additionalProperty)
  return null
}

function ruleOf(
  { keyword, message }: FastifySchemaValidationError,
  params: Record<string, unknown>,
  path: readonly string[],
): string {
  if (keyword === 'required') return 'is required'
  if (keyword === 'enum') return `must be one of ${(params.allowedValues as unknown[]).join(', ')}`
  if (keyword === 'minProperties') return 'must have at least one field'
  if (keyword === 'type') return `must be ${article(String(params.type))}`
  if (keyword === 'additionalProperties') {
    const atTop = path.length === 1 || (path.length === 2 && isIndex(path[0]))
    const name = path.at(-1) ?? ''
    return atTop && Object.hasOwn(BELONGS, name) ? `${BELONGS[name]}` : 'is not a known field'
  }
  return message ?? 'is not valid'
}

function article(type: string): string {
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`
}

function isIndex(part: string | undefined): boolean {
  return part !== undefined && /^\d+$/.test(part)
}

/** Returns the path as callers write it, with a colon; `the body ` if the body as a whole is wrong. */
function pathText(path: readonly string[]): string {
  if (path.length === 0) return 'the body '
  const parts = path.map((part, index) => {
    if (isIndex(part)) return index === 0 ? `jobs[${part}]` : `[${part}]`
    const name = part.length > LONGEST_NAME ? `${part.slice(0, LONGEST_NAME)}…` : part
    return index === 0 ? name : `.${name}`
  })
  return `${parts.join('')}: `
}

function unescapePointer(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~')
}
