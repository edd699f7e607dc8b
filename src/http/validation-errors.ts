/** Converts Ajv's errors about a body to an error detail: the element, the field and the rule. */
import type { FastifySchemaValidationError } from 'fastify'
import { BELONGS } from '../job/request.ts'

/** Longer names of callers' fields are truncated. */
const LONGEST_NAME = 80

/** Returns a detail such as `jobs[1].messages[0].role: must be one of …`. The body is one job or an array of them. */
export function validationError(error: FastifySchemaValidationError): string {
  const path = error.instancePath.split('/').slice(1).map(unescapePointer)
  const params = error.params as Record<string, unknown>
  const inner = innerName(error.keyword, params)
  if (inner !== null) path.push(inner)
  return `${pathText(path)}${ruleOf(error, params, path)}`
}

/** Ajv reports a missing or an unknown property with the path of the object around it. */
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

/** The path as callers write it, with a colon; empty for a body that is wrong as a whole. */
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
