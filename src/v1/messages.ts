/** Reads the conversations of requests to `/v1`: which fields a message may have, and its text. */
import { FieldProblem } from '../job/field-rules.ts'
import type { Message, Role } from '../job/job.ts'
import { ROLES } from '../job/job.ts'
import { isObject } from '../json-object.ts'
import { type FieldPolicy, isAnything, isEmpty, supportedFields } from './fields.ts'

/**
 * Clients send back messages that they received from this API or from `parse()` of OpenAI's clients. These messages have
 * additional fields, which do not change the answer.
 */
const MESSAGE: FieldPolicy = {
  supported: ['role', 'content', 'name'],
  ignored: ['parsed'],
  neutral: { refusal: isAnything, annotations: isEmpty, tool_calls: isEmpty },
}

/** Reads a conversation, whose messages contain a text or an array of text parts. */
export function messagesOf(given: unknown, field: string): Message[] {
  if (!Array.isArray(given)) throw new FieldProblem(field, 'must be an array')
  const names: Names = new Map()
  return given.map((message, at) => messageOf(message, `${field}[${at}]`, names))
}

/** The name of all messages of a role. Models do not see it, and it matters only if it distinguishes participants of one role. */
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

/** @param types the `type` of parts that contain text */
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
