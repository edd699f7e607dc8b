/** Reads conversations: messages whose content is a text or text parts. */

import { FieldProblem } from '../job/field-problem.ts'
import type { Message, Role } from '../job/job.ts'
import { ROLES } from '../job/job.ts'
import { type FieldPolicy, isAnything, isEmpty, isObject, supportedFields } from './fields.ts'

/** Clients send back messages that they got from this API or from `parse()`. Their extra fields change nothing. */
const MESSAGE: FieldPolicy = {
  supported: ['role', 'content'],
  ignored: ['parsed'],
  neutral: { refusal: isAnything, annotations: isEmpty, tool_calls: isEmpty },
}

export function messagesOf(given: unknown, field: string): Message[] {
  if (!Array.isArray(given)) throw new FieldProblem(field, 'must be an array')
  return given.map((message, at) => messageOf(message, `${field}[${at}]`))
}

function messageOf(given: unknown, field: string): Message {
  const { role, content } = supportedFields(given, MESSAGE, field)
  if (!ROLES.includes(role as Role))
    throw new FieldProblem(`${field}.role`, `must be one of ${ROLES.join(', ')}`)
  return { role: role as Role, content: textOf(content, `${field}.content`) }
}

/** @param types of the parts that contain text */
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
