/**
 * Rearranges a conversation for servers whose chat templates accept fewer roles, or fewer orders of roles, than callers may
 * send. Every text is kept, and texts of the same role keep their order. The JSON text is not parsed, because a conversation
 * may have megabytes and each call rearranges it.
 */
import type { Role } from '../job/job.ts'
import { stringEnd } from '../json-text/scan-json.ts'

/**
 * - `native`: the caller's messages, unchanged.
 * - `developer_as_system`: `developer` messages become `system` messages.
 * - `merged_system`: the initial system and developer messages become one system message; later developer messages become
 *   system messages at the same position.
 * - `no_system`: `user` and `assistant` alternate, starting with `user`. System and developer messages are merged into the next
 *   user message. Those after the last user message are at the end, in a user message.
 */
export type SentRoles = 'native' | 'developer_as_system' | 'merged_system' | 'no_system'

/** Some templates require a user message first. This one is added before a conversation that starts with `assistant`. */
const CONTINUED = '(continued)'

/** An empty line as JSON text separates two texts that are merged into one message. */
const BETWEEN = '\\n\\n'

/**
 * Returns the messages to send, as JSON text.
 * @param messagesJson an array of messages as `JSON.stringify` writes it
 * @param instruction Parley's instruction. It follows the caller's initial system and developer messages, except in `native`
 * and `developer_as_system`, where it is the first system message
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

function withFirst(messagesJson: string, instruction: string | null): string {
  if (instruction === null) return messagesJson
  return `[${messageJson('system', escaped(instruction))},${messagesJson.slice(1)}`
}

function developerAsSystem(messagesJson: string): string {
  return messagesJson.replaceAll('"role":"developer"', '"role":"system"')
}

function mergeSystem(messagesJson: string, instruction: string | null): string {
  let content: string | null = null
  let at = 1
  while (messagesJson.charAt(at) === '{') {
    const message = messageAt(messagesJson, at)
    if (!isInstruction(message.role)) break
    content = joined(content ?? '', message.content)
    at = message.end + 1
  }
  const rest = developerAsSystem(messagesJson.slice(at))
  if (instruction !== null) content = joined(content ?? '', escaped(instruction))
  if (content === null) return `[${rest}`
  const system = messageJson('system', content)
  return rest === '' ? `[${system}]` : `[${system},${rest}`
}

function withoutSystem(messagesJson: string, instruction: string | null): string {
  const turns = new Turns()
  let instructions = ''
  let added = instruction === null ? '' : escaped(instruction)
  for (let at = 1; messagesJson.charAt(at) === '{'; ) {
    const { role, content, end } = messageAt(messagesJson, at)
    at = end + 1
    if (isInstruction(role)) {
      instructions = joined(instructions, content)
      continue
    }
    instructions = joined(instructions, added)
    added = ''
    if (role === 'user') {
      turns.add('user', joined(instructions, content))
      instructions = ''
    } else turns.add('assistant', content)
  }
  instructions = joined(instructions, added)
  if (instructions !== '') turns.add('user', instructions)
  return turns.end()
}

/** Collects alternating messages of user and assistant as one text, because a conversation may have 300,000 messages. */
class Turns {
  #json = ''
  #role: 'user' | 'assistant' | null = null
  #content = ''

  add(role: 'user' | 'assistant', content: string): void {
    if (role === this.#role) {
      this.#content = joined(this.#content, content)
      return
    }
    this.#endTurn()
    if (this.#role === null && role === 'assistant') this.#json = `${messageJson('user', CONTINUED)},`
    this.#role = role
    this.#content = content
  }

  end(): string {
    this.#endTurn()
    return `[${this.#json.slice(0, -1)}]`
  }

  #endTurn(): void {
    if (this.#role !== null) this.#json += `${messageJson(this.#role, this.#content)},`
  }
}

function isInstruction(role: Role): role is 'system' | 'developer' {
  return role === 'system' || role === 'developer'
}

interface MessageText {
  readonly role: Role
  readonly content: string
  readonly end: number
}

const ROLE_FIRST = '{"role":"'
const CONTENT_FIRST = '{"content":"'
const THEN_ROLE = '","role":"'
const THEN_CONTENT = '","content":"'

/** A message has two members, in either order. */
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

function joined(before: string, after: string): string {
  if (before === '') return after
  return after === '' ? before : before + BETWEEN + after
}

function messageJson(role: Role, content: string): string {
  return `{"role":"${role}","content":"${content}"}`
}
