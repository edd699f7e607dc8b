/**
 * Builds the body of a chat completion request from a prompt.
 *
 * The conversation and the schema are put in as the JSON text that is stored: every call needs a body, and neither parsing
 * nor writing them again would change anything.
 */
import type { UpstreamSettings } from '../config/settings.ts'
import type { AnswerForm, JsonMode, Prompt, RequestFormat } from './model-server.ts'

/** The variant of the wire format that a server supports. */
export type Dialect = Pick<UpstreamSettings, 'roles' | 'structured_output'>

/** The wire format requires a name for a schema; nothing depends on its value. */
export const SCHEMA_NAME = 'answer'

const ONLY_JSON = 'and nothing else: no explanation before or after it, and no code fence.'

export function requestBody(model: string, prompt: Prompt, dialect: Dialect): string {
  const messages = wireMessages(prompt, dialect)
  const format = wireFormat(prompt.form, dialect.structured_output)
  return `{"model":${JSON.stringify(model)},"messages":${messages}${format}}`
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
      return `Answer with one JSON value that satisfies the JSON Schema below, ${ONLY_JSON}\n\n${form.schemaJson}`
  }
}

function wireMessages({ messagesJson, form }: Prompt, dialect: Dialect): string {
  const messages = dialect.roles === 'native' ? messagesJson : developerAsSystem(messagesJson)
  const instruction = addedInstruction(form, dialect.structured_output)
  if (instruction === null) return messages
  return `[${JSON.stringify({ role: 'system', content: instruction })},${messages.slice(1)}`
}

/** No text of a message can look like this: there, every quote has a backslash before it. */
function developerAsSystem(messagesJson: string): string {
  return messagesJson.replaceAll('"role":"developer"', '"role":"system"')
}

/** The `response_format` with the comma before it; empty if the request has none. */
function wireFormat(form: AnswerForm, supported: Dialect['structured_output']): string {
  if (form.kind !== 'schema') return ''
  switch (jsonMode(form, supported)) {
    case 'json_schema_strict':
    case 'json_schema': {
      const { schemaJson, strict } = form
      return `,"response_format":{"type":"json_schema","json_schema":{"name":"${SCHEMA_NAME}","schema":${schemaJson},"strict":${strict}}}`
    }
    case 'json_object':
      return ',"response_format":{"type":"json_object"}'
    case 'instruction':
      return ''
  }
}

function jsonMode(
  form: Exclude<AnswerForm, { kind: 'text' }>,
  supported: Dialect['structured_output'],
): Exclude<JsonMode, 'simulated'> {
  if (form.kind === 'json') return 'instruction'
  if (supported === 'json_schema') return form.strict ? 'json_schema_strict' : 'json_schema'
  // `json_object` forces every answer to be an object, which would break any other schema.
  return supported === 'json_object' && form.isObject ? 'json_object' : 'instruction'
}
