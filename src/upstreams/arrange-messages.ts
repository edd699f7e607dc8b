/**
 * Arranges a conversation for servers whose chat templates take fewer roles, or fewer orders of them, than callers may
 * send. Every text stays, and no text passes another one of its own role or an instruction.
 *
 * Works on the JSON text of the messages without parsing it: each call needs the text, a conversation may have megabytes,
 * and the contents stay as they are.
 */
import type { Role } from '../job/job.ts'
import { stringEnd } from '../json-text/scan-json.ts'

/**
 * - `native`: the caller's messages as they are.
 * - `developer_as_system`: the same, with `developer` messages as `system` messages.
 * - `merged_system`: the system and developer messages that begin the conversation as one system message; later developer
 *   messages as system messages, in their place.
 * - `no_system`: only `user` and `assistant`, in turn, beginning with `user`. System and developer messages join the next
 *   user message, or become one at the end.
 */
export type SentRoles = 'native' | 'developer_as_system' | 'merged_system' | 'no_system'

/** The first message of a conversation that begins with `assistant`, for templates that require one of the user. */
const CONTINUED = '(continued)'

/** Between two texts that share a message, as JSON text: an empty line. */
const BETWEEN = '\\n\\n'

/**
 * @param messagesJson an array of messages as `JSON.stringify` writes it
 * @param instruction Parley's own; it follows the caller's system and developer messages that begin the conversation,
 *   except in `native` and `developer_as_system`, where it is a system message before all others
 */
export function arrangeMessages(messagesJson: string, roles: SentRoles, instruction: string | null): string {
  switch (roles) {
    case 'native':
      return withFirst(messagesJson, instruction)
    case 'developer_as_system':
      return withFirst(developerAsSystem(messagesJson), instruction)
    case 'merged_system':
      return mergeSystem(messagesJson, instruction)
    case 'no_system':
      return withoutSystem(messagesJson, instruction)
  }
}

/** No text of a message can look like a role: there, every quote has a backslash before it. */
const ROLE = '"role":"'

/** What a conversation asks of a chat template, sent as `merged_system`. */
export interface Shape {
  /** Whether it has system messages. */
  readonly hasSystem: boolean
  /** Whether at most one system message comes first, and then user and assistant alternate, beginning with the user. */
  readonly isRegular: boolean
  readonly endsWithAssistant: boolean
}

/** @param hasInstruction whether Parley adds an instruction */
export function shapeOf(messagesJson: string, hasInstruction: boolean): Shape {
  let hasSystem = hasInstruction
  let isRegular = true
  let turns = 0
  let role: Role = 'user'
  for (let at = messagesJson.indexOf(ROLE); at !== -1; at = messagesJson.indexOf(ROLE, at + ROLE.length)) {
    role = roleAt(messagesJson, at + ROLE.length)
    if (isInstruction(role)) {
      hasSystem = true
      if (turns > 0) isRegular = false
    } else if ((role === 'user') !== (turns++ % 2 === 0)) isRegular = false
  }
  return { hasSystem, isRegular, endsWithAssistant: role === 'assistant' }
}

function withFirst(messagesJson: string, instruction: string | null): string {
  if (instruction === null) return messagesJson
  return `[${messageJson('system', escaped(instruction))},${messagesJson.slice(1)}`
}

function developerAsSystem(messagesJson: string): string {
  return messagesJson.replaceAll('"role":"developer"', '"role":"system"')
}

function mergeSystem(messagesJson: string, instruction: string | null): string {
  const first: string[] = []
  let at = 1
  while (messagesJson.charAt(at) === '{') {
    const { role, content, end } = messageAt(messagesJson, at)
    if (!isInstruction(role)) break
    first.push(content)
    at = end + 1
  }
  const rest = developerAsSystem(messagesJson.slice(at))
  if (instruction !== null) first.push(escaped(instruction))
  if (first.length === 0) return `[${rest}`
  const system = messageJson('system', joined(first))
  return rest === '' ? `[${system}]` : `[${system},${rest}`
}

interface Turn {
  readonly role: 'user' | 'assistant'
  readonly contents: string[]
}

function withoutSystem(messagesJson: string, instruction: string | null): string {
  const turns: Turn[] = []
  const add = (role: Turn['role'], content: string) => {
    const last = turns.at(-1)
    if (last?.role === role) last.contents.push(content)
    else turns.push({ role, contents: [content] })
  }
  let instructions: string[] = []
  let added = instruction === null ? null : escaped(instruction)
  for (let at = 1; messagesJson.charAt(at) === '{'; ) {
    const { role, content, end } = messageAt(messagesJson, at)
    at = end + 1
    if (isInstruction(role)) {
      instructions.push(content)
      continue
    }
    if (added !== null) instructions.push(added)
    added = null
    if (role === 'user') {
      for (const text of instructions) add('user', text)
      instructions = []
    }
    add(role, content)
  }
  if (added !== null) instructions.push(added)
  for (const text of instructions) add('user', text)
  if (turns[0]?.role === 'assistant') turns.unshift({ role: 'user', contents: [CONTINUED] })
  return `[${turns.map(({ role, contents }) => messageJson(role, joined(contents))).join(',')}]`
}

function isInstruction(role: Role): role is 'system' | 'developer' {
  return role === 'system' || role === 'developer'
}

interface MessageText {
  readonly role: Role
  /** As JSON text, without the quotes. */
  readonly content: string
  /** The index behind the message. */
  readonly end: number
}

const ROLE_FIRST = '{"role":"'
const CONTENT_FIRST = '{"content":"'
const THEN_ROLE = '","role":"'
const THEN_CONTENT = '","content":"'

/** Callers write the two members in either order. */
function messageAt(json: string, at: number): MessageText {
  if (json.startsWith(ROLE_FIRST, at)) {
    const role = roleAt(json, at + ROLE_FIRST.length)
    const start = at + ROLE_FIRST.length + role.length + THEN_CONTENT.length
    const end = stringEnd(json, start)
    return { role, content: json.slice(start, end), end: end + '"}'.length }
  }
  const start = at + CONTENT_FIRST.length
  const contentEnd = stringEnd(json, start)
  const role = roleAt(json, contentEnd + THEN_ROLE.length)
  const end = contentEnd + THEN_ROLE.length + role.length + '"}'.length
  return { role, content: json.slice(start, contentEnd), end }
}

function roleAt(json: string, at: number): Role {
  switch (json.charAt(at)) {
    case 's':
      return 'system'
    case 'd':
      return 'developer'
    case 'a':
      return 'assistant'
    default:
      return 'user'
  }
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

function joined(contents: readonly string[]): string {
  return contents.filter((content) => content !== '').join(BETWEEN)
}

function messageJson(role: Role, content: string): string {
  return `{"role":"${role}","content":"${content}"}`
}
