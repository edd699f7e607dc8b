/**
 * Builds the body of a chat completion request from a prompt. The conversation and the schema are inserted as stored JSON text,
 * because parsing and serializing them for every call would not change them.
 */
import type { UpstreamSettings } from '../config/settings.ts'
import { arrangeMessages, type SentRoles } from './arrange-messages.ts'
import type { AnswerForm, JsonMode, Prompt, RequestFormat } from './model-server.ts'

type StructuredOutput = UpstreamSettings['structured_output']

/** The wire format requires a name for a schema; nothing depends on its value. */
export const SCHEMA_NAME = 'answer'

const ONLY_JSON = 'and nothing else: no explanation before or after it, and no code fence.'

export function requestBody(model: string, { messagesJson, form }: Prompt, format: RequestFormat): string {
  const { roles, json_mode, instruction } = format
  const messages =
    roles === 'native' && instruction === undefined
      ? messagesJson
      : arrangeMessages(messagesJson, roles, instruction ?? null)
  const response = json_mode === undefined ? '' : wireFormat(form, json_mode)
  return `{"model":${JSON.stringify(model)},"messages":${messages}${response}}`
}

const TEXT_FORMATS: Readonly<Record<SentRoles, RequestFormat>> = {
  native: { roles: 'native' },
  developer_as_system: { roles: 'developer_as_system' },
  merged_system: { roles: 'merged_system' },
  no_system: { roles: 'no_system' },
}

/** How to send the messages with these roles and request this format, given what the server supports. */
export function requestFormat(
  form: AnswerForm,
  roles: SentRoles,
  supported: StructuredOutput,
): RequestFormat {
  if (form.kind === 'text') return TEXT_FORMATS[roles]
  const mode = jsonMode(form, supported)
  const instruction = addedInstruction(form, mode)
  return instruction === null ? { roles, json_mode: mode } : { roles, json_mode: mode, instruction }
}

/**
 * The format for a server that rejected the schema in `response_format`: the schema in an instruction, with any JSON object or
 * without a format. Null if the format contains nothing that could be rejected.
 */
export function withoutSchema(form: AnswerForm, { roles, json_mode }: RequestFormat): RequestFormat | null {
  if (form.kind !== 'schema' || json_mode === undefined) return null
  switch (json_mode) {
    case 'json_schema_strict':
    case 'json_schema':
      return requestFormat(form, roles, 'json_object')
    default:
      return null
  }
}

/**
 * The instruction that Parley adds to the caller's messages if the server does not enforce the format; null if none is needed.
 * `arrangeMessages` decides where it goes.
 */
function addedInstruction(form: AnswerForm, mode: JsonMode): string | null {
  if (form.kind === 'json') return `Answer with one JSON value ${ONLY_JSON}`
  if (form.kind === 'text' || mode === 'json_schema' || mode === 'json_schema_strict') return null
  return `Answer with one JSON value that satisfies the JSON Schema below, ${ONLY_JSON}\n\n${form.schemaJson}`
}

/** The `response_format` with a comma before it; empty if the request has none. */
function wireFormat(form: AnswerForm, mode: JsonMode): string {
  if (form.kind !== 'schema') return ''
  switch (mode) {
    case 'json_schema_strict':
    case 'json_schema': {
      const { schemaJson, strict } = form
      return `,"response_format":{"type":"json_schema","json_schema":{"name":"${SCHEMA_NAME}","schema":${schemaJson},"strict":${strict}}}`
    }
    case 'json_object':
      return ',"response_format":{"type":"json_object"}'
    default:
      return ''
  }
}

function jsonMode(form: Exclude<AnswerForm, { kind: 'text' }>, supported: StructuredOutput): JsonMode {
  if (form.kind === 'json') return 'instruction'
  if (supported === 'json_schema') return form.strict ? 'json_schema_strict' : 'json_schema'
  // `json_object` forces every answer to be an object, so it is useless for other schemas.
  return supported === 'json_object' && form.isObject ? 'json_object' : 'instruction'
}
