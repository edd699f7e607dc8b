/**
 * Builds requests to a model server: the URL, headers and certificates, which all requests share, and the body. The
 * conversation and the schema are inserted as stored JSON text, without parsing them.
 */
import { getCACertificates } from 'node:tls'
import type { UpstreamSettings } from '../config/settings.ts'
import type { UpstreamAccess } from '../config/upstream-access.ts'
import type { JobOptions } from '../job/options.ts'
import { ANY_OBJECT_JSON } from '../job/response-format.ts'
import { arrangeMessages, type SentRoles } from './arrange-messages.ts'
import type { AnswerForm, JsonMode, Prompt, RequestFormat, UpstreamError } from './model-server.ts'

/** Keeps the query of `base_url`, because some gateways expect their api-version there. */
export function endpointUrl(
  baseUrl: string,
  endpoint: '/chat/completions' | '/models',
  query: UpstreamAccess['query'],
): URL {
  const url = new URL(baseUrl)
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${endpoint}`
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
  return url
}

/** Returns names and values alternately. Throws if the key contains characters that are not valid in a header. */
export function requestHeaders(
  upstream: string,
  { apiKey, headers }: Pick<UpstreamAccess, 'apiKey' | 'headers'>,
): string[] {
  const all = new Map([
    ['content-type', 'application/json'],
    ['accept', 'application/json'],
    ['user-agent', 'parley'],
  ])
  if (apiKey !== null && apiKey !== '') {
    if (!/^[\x21-\x7e]+$/.test(apiKey)) {
      throw new Error(`The key of upstream ${upstream} contains characters that are not valid in a header.`)
    }
    all.set('authorization', `Bearer ${apiKey}`)
  }
  for (const [name, value] of Object.entries(headers)) all.set(name.toLowerCase(), value)
  return [...all].flat()
}

export function trustedCertificates(ca: UpstreamAccess['ca']): { readonly ca?: string[] } {
  return ca === null ? {} : { ca: [...getCACertificates('default'), ca] }
}

type StructuredOutput = UpstreamSettings['structured_output']

/** The wire format requires a name for the schema. Nothing depends on it. */
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

export function sendsSchema({ json_mode }: RequestFormat): boolean {
  return json_mode === 'json_schema' || json_mode === 'json_schema_strict'
}

/**
 * Returns the next format for a server that rejected this one. At first, the schema moves into an instruction, next to
 * `json_object`; then `response_format` is left out. Null if the format contains nothing else that can be rejected.
 */
export function withoutSchema(form: AnswerForm, format: RequestFormat): RequestFormat | null {
  if (form.kind !== 'schema') return null
  if (sendsSchema(format)) return requestFormat(form, format.roles, 'json_object')
  return format.json_mode === 'json_object' ? requestFormat(form, format.roles, 'none') : null
}

function addedInstruction(form: AnswerForm, mode: JsonMode): string | null {
  if (form.kind === 'json') return `Answer with one JSON value ${ONLY_JSON}`
  if (form.kind === 'text' || mode === 'json_schema' || mode === 'json_schema_strict') return null
  return `Answer with one JSON value that satisfies the JSON Schema below, ${ONLY_JSON}\n\n${form.schemaJson}`
}

/** Returns the `response_format` member with a comma before it; an empty text if the request has none. */
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
  if (form.schemaJson === ANY_OBJECT_JSON && supported !== 'none') return 'json_object'
  if (supported === 'json_schema') return form.strict ? 'json_schema_strict' : 'json_schema'
  // With `json_object` every answer is an object, so this mode is useless for schemas of other types.
  return supported === 'json_object' && form.isObject ? 'json_object' : 'instruction'
}

/** Most servers accept the older name; OpenAI requires the newer one for reasoning models. */
const NAMES = ['max_tokens', 'max_completion_tokens'] as const
const [OLDER, NEWER] = NAMES
type Name = (typeof NAMES)[number]

const MAX_TOKENS = '"max_tokens":'
const REJECTIONS: readonly (number | null)[] = [400, 422]
/** Errors about an unknown option usually contain one of these words. Errors about a value that is too large usually do not. */
const UNSUPPORTED =
  /unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|instead|extra/i

/** The name of `max_tokens` differs between models, so this class remembers which name each model has accepted. */
export class SentOptions {
  readonly #body: UpstreamSettings['body']
  readonly #usual: Name
  readonly #learned = new Map<string, Name>()
  /** Formats that already use the second name. `#learned` does not show this, because it may change during a call. */
  readonly #renamed = new WeakSet<RequestFormat>()

  constructor(body: UpstreamSettings['body'], isOpenAi: boolean) {
    this.#body = body
    this.#usual = isOpenAi ? NEWER : OLDER
  }

  named(format: RequestFormat, model: string, optionsJson: string): RequestFormat {
    if (!optionsJson.includes(MAX_TOKENS)) return format
    return withName(format, this.#nameFor(model))
  }

  /**
   * Returns the format with the other name if the server rejects the name; null if it does not, or if both names were tried.
   */
  renamed(
    format: RequestFormat,
    optionsJson: string,
    { status, message }: UpstreamError,
  ): RequestFormat | null {
    const name = nameIn(format)
    if (!optionsJson.includes(MAX_TOKENS) || this.#renamed.has(format)) return null
    if (!REJECTIONS.includes(status) || !message.includes(name) || !UNSUPPORTED.test(message)) return null
    const renamed = withName(format, name === OLDER ? NEWER : OLDER)
    this.#renamed.add(renamed)
    return renamed
  }

  answered(format: RequestFormat, model: string, optionsJson: string): void {
    if (optionsJson.includes(MAX_TOKENS)) this.#learned.set(model, nameIn(format))
  }

  /** Returns the upstream's setting `body`, changed by the job's options, as the end of a request's body. */
  bodyEnd(format: RequestFormat, optionsJson: string): string {
    const { max_tokens, ...options }: JobOptions = JSON.parse(optionsJson)
    const fields: Record<string, unknown> = { ...this.#body, ...options }
    if (max_tokens !== undefined) {
      for (const name of NAMES) delete fields[name]
      fields[nameIn(format)] = max_tokens
    }
    return `,${JSON.stringify(fields).slice(1)}`
  }

  #nameFor(model: string): Name {
    return this.#learned.get(model) ?? this.#usual
  }
}

function nameIn({ max_tokens_as }: RequestFormat): Name {
  return max_tokens_as ?? OLDER
}

function withName(format: RequestFormat, name: Name): RequestFormat {
  const { max_tokens_as: _, ...others } = format
  return name === NEWER ? { ...others, max_tokens_as: NEWER } : others
}
