/**
 * Builds the body of a chat completion request from a prompt.
 *
 * The `openai` package's types check it against the wire format. Every call needs one, so the usual body reuses the
 * conversation's JSON text instead of serializing it again.
 */
import type {
  ChatCompletionCreateParamsNonStreaming,
  ChatCompletionMessageParam,
} from 'openai/resources/chat/completions'
import type { UpstreamSettings } from '../config/settings.ts'
import type { Message } from '../job/job.ts'
import type { AnswerForm, JsonMode, Prompt, RequestFormat } from './model-server.ts'

/** The variant of the wire format that a server supports. */
export type Dialect = Pick<UpstreamSettings, 'roles' | 'structured_output'>

/** The wire format requires a name for a schema; nothing depends on its value. */
export const SCHEMA_NAME = 'answer'

const ONLY_JSON = 'and nothing else: no explanation before or after it, and no code fence.'

type Body = Omit<ChatCompletionCreateParamsNonStreaming, 'messages'> & {
  readonly messages: readonly ChatCompletionMessageParam[]
}
type WireFormat = NonNullable<Body['response_format']>

export function requestBody(model: string, prompt: Prompt, dialect: Dialect): string {
  if (prompt.form.kind === 'text' && dialect.roles === 'native') {
    // The usual call: the conversation as the JSON text that is stored.
    return `{"model":${JSON.stringify(model)},"messages":${prompt.messagesJson ?? JSON.stringify(prompt.messages)}}`
  }
  const messages = wireMessages(prompt, dialect)
  const format = wireFormat(prompt.form, dialect.structured_output)
  const body: Body = format === null ? { model, messages } : { model, messages, response_format: format }
  return JSON.stringify(body)
}

/** How `requestBody` represents the roles and the form of the answer. */
export function requestFormat(form: AnswerForm, { roles, structured_output }: Dialect): RequestFormat {
  if (form.kind === 'text') return { roles }
  const format = { roles, json_mode: jsonMode(form, structured_output) }
  const instruction = addedInstruction(form, structured_output)
  return instruction === null ? format : { ...format, instruction }
}

/**
 * The instruction that Parley adds to the caller's messages if the server cannot enforce the form; null if none is
 * needed. It is sent as the first message, with the role `system`: many servers' chat templates allow a system message
 * only there, and the caller's own messages keep their order and stay last.
 */
export function addedInstruction(form: AnswerForm, supported: Dialect['structured_output']): string | null {
  switch (form.kind) {
    case 'text':
      return null
    case 'json':
      return `Answer with one JSON value ${ONLY_JSON}`
    case 'schema':
      if (supported === 'json_schema') return null
      return `Answer with one JSON value that satisfies the JSON Schema below, ${ONLY_JSON}\n\n${JSON.stringify(form.schema)}`
  }
}

function wireMessages(prompt: Prompt, dialect: Dialect): readonly ChatCompletionMessageParam[] {
  const messages = dialect.roles === 'native' ? prompt.messages : prompt.messages.map(developerAsSystem)
  const instruction = addedInstruction(prompt.form, dialect.structured_output)
  return instruction === null ? messages : [{ role: 'system', content: instruction }, ...messages]
}

function developerAsSystem(message: Message): Message {
  return message.role === 'developer' ? { role: 'system', content: message.content } : message
}

function wireFormat(form: AnswerForm, supported: Dialect['structured_output']): WireFormat | null {
  if (form.kind !== 'schema') return null
  switch (jsonMode(form, supported)) {
    case 'json_schema_strict':
    case 'json_schema':
      return {
        type: 'json_schema',
        json_schema: { name: SCHEMA_NAME, schema: form.schema, strict: form.strict },
      }
    case 'json_object':
      return { type: 'json_object' }
    case 'instruction':
      return null
  }
}

function jsonMode(
  form: Exclude<AnswerForm, { kind: 'text' }>,
  supported: Dialect['structured_output'],
): Exclude<JsonMode, 'simulated'> {
  if (form.kind === 'json') return 'instruction'
  if (supported === 'json_schema') return form.strict ? 'json_schema_strict' : 'json_schema'
  // `json_object` forces every answer to be an object, which would break any other schema.
  return supported === 'json_object' && form.schema.type === 'object' ? 'json_object' : 'instruction'
}
