/**
 * The body of a chat completion request, built from a prompt.
 *
 * The `openai` package's types hold it to the wire format. It is on the path of every call, so the usual body is made
 * without turning the conversation into text once more.
 */
import type {
  ChatCompletionCreateParamsNonStreaming,
  ChatCompletionMessageParam,
} from 'openai/resources/chat/completions'
import type { UpstreamSettings } from '../config/settings.ts'
import type { Message } from '../job/job.ts'
import type { AnswerForm, JsonMode, Prompt, RequestFormat } from './model-server.ts'

/** What a server understands. */
export type Dialect = Pick<UpstreamSettings, 'roles' | 'structured_output'>

/** The interface demands a name for a schema; nothing depends on which. */
export const SCHEMA_NAME = 'answer'

const ONLY_JSON = 'and nothing else: no explanation before or after it, and no code fence.'

type Body = Omit<ChatCompletionCreateParamsNonStreaming, 'messages'> & {
  readonly messages: readonly ChatCompletionMessageParam[]
}
type WireFormat = NonNullable<Body['response_format']>

export function requestBody(model: string, prompt: Prompt, dialect: Dialect): string {
  if (prompt.form.kind === 'text' && dialect.roles === 'native') {
    // The usual call: the conversation as the text that the store has been given already.
    return `{"model":${JSON.stringify(model)},"messages":${prompt.messagesJson ?? JSON.stringify(prompt.messages)}}`
  }
  const messages = wireMessages(prompt, dialect)
  const format = wireFormat(prompt.form, dialect.structured_output)
  const body: Body = format === null ? { model, messages } : { model, messages, response_format: format }
  return JSON.stringify(body)
}

/** What `requestBody` makes of the roles and of the form. */
export function requestFormat(form: AnswerForm, { roles, structured_output }: Dialect): RequestFormat {
  if (form.kind === 'text') return { roles }
  const asked = { roles, json_mode: jsonMode(form, structured_output) }
  const instruction = addedInstruction(form, structured_output)
  return instruction === null ? asked : { ...asked, instruction }
}

/**
 * The instruction that Parley adds to the caller's messages because the server cannot be held to the form otherwise;
 * null where none is added. It is sent as a `system` message before all others: many servers' chat templates allow a
 * system message only there, and the caller's own messages keep their order and the last word.
 */
export function addedInstruction(form: AnswerForm, offered: Dialect['structured_output']): string | null {
  switch (form.kind) {
    case 'text':
      return null
    case 'json':
      return `Answer with one JSON value ${ONLY_JSON}`
    case 'schema':
      if (offered === 'json_schema') return null
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

function wireFormat(form: AnswerForm, offered: Dialect['structured_output']): WireFormat | null {
  if (form.kind !== 'schema') return null
  switch (jsonMode(form, offered)) {
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
  offered: Dialect['structured_output'],
): Exclude<JsonMode, 'simulated'> {
  if (form.kind === 'json') return 'instruction'
  if (offered === 'json_schema') return form.strict ? 'json_schema_strict' : 'json_schema'
  // `json_object` makes every answer an object, and so would make an answer to any other schema wrong.
  return offered === 'json_object' && form.schema.type === 'object' ? 'json_object' : 'instruction'
}
