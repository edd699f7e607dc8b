/**
 * Builds requests to a model server: the URL, the headers and the certificates, which are the same in all requests, and the body
 * from a prompt and the job's options. The conversation and the schema are inserted as stored JSON text, without parsing them.
 */
import { getCACertificates } from 'node:tls'
import type { UpstreamSettings } from '../config/settings.ts'
import type { UpstreamAccess } from '../config/upstream-access.ts'
import type { JobOptions } from '../job/options.ts'
import { ANY_OBJECT_JSON } from '../job/response-format.ts'
import { arrangeMessages, type SentRoles } from './arrange-messages.ts'
import type { AnswerForm, JsonMode, Prompt, RequestFormat, UpstreamError } from './model-server.ts'

/** The URL of an endpoint. It keeps the query of `base_url`, because some gateways expect their api-version there. */
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

/**
 * Returns alternating names and values, which undici expects. Headers from the settings replace default ones. Throws if the key
 * contains characters that are not valid in a header.
 */
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

/** The TLS options with the certificates to trust; empty if the default ones suffice. */
export function trustedCertificates(ca: UpstreamAccess['ca']): { readonly ca?: string[] } {
  return ca === null ? {} : { ca: [...getCACertificates('default'), ca] }
}

type StructuredOutput = UpstreamSettings['structured_output']

/** The name of the schema, which the wire format requires. Nothing depends on it. */
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

/** Returns how to send the messages with these roles and request an answer of this form, given what the server supports. */
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

/** Whether the request contains the schema in `response_format`. */
export function sendsSchema({ json_mode }: RequestFormat): boolean {
  return json_mode === 'json_schema' || json_mode === 'json_schema_strict'
}

/**
 * Returns the next format for a server that rejected this one. The schema moves into an instruction, next to `json_object`; if
 * that was rejected too, without `response_format`. Null if the format contains nothing else that can be rejected.
 */
export function withoutSchema(form: AnswerForm, format: RequestFormat): RequestFormat | null {
  if (form.kind !== 'schema') return null
  if (sendsSchema(format)) return requestFormat(form, format.roles, 'json_object')
  return format.json_mode === 'json_object' ? requestFormat(form, format.roles, 'none') : null
}

/**
 * The instruction that Parley adds to the messages if the server does not enforce the form; null if none is needed.
 * `arrangeMessages` decides where it goes.
 */
function addedInstruction(form: AnswerForm, mode: JsonMode): string | null {
  if (form.kind === 'json') return `Answer with one JSON value ${ONLY_JSON}`
  if (form.kind === 'text' || mode === 'json_schema' || mode === 'json_schema_strict') return null
  return `Answer with one JSON value that satisfies the JSON Schema below, ${ONLY_JSON}\n\n${form.schemaJson}`
}

/** The `response_format` member with a comma before it; empty if the request has none. */
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
  // With `json_object` every answer is an object, so it is of no use for schemas of other types.
  return supported === 'json_object' && form.isObject ? 'json_object' : 'instruction'
}

/** Most servers accept the older name; OpenAI requires the newer one for reasoning models. */
const NAMES = ['max_tokens', 'max_completion_tokens'] as const
const [OLDER, NEWER] = NAMES
type Name = (typeof NAMES)[number]

const MAX_TOKENS = '"max_tokens":'
const REJECTIONS: readonly (number | null)[] = [400, 422]
/** Words of errors about an unknown option. Errors about a value that is too large do not contain them. */
const UNSUPPORTED =
  /unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|instead|extra/i

/**
 * Adds the options of a job to requests, under the names that the model server accepts. The name of `max_tokens` differs
 * between models, so this class remembers the name that each model accepts: at first the server's usual one, then the one that
 * was answered.
 */
export class SentOptions {
  readonly #body: UpstreamSettings['body']
  readonly #usual: Name
  readonly #learned = new Map<string, Name>()
  /** Formats that already use the second name. What was learned does not show this, because it may change during a call. */
  readonly #renamed = new WeakSet<RequestFormat>()

  /** @param isOpenAi whether the server belongs to OpenAI or Azure */
  constructor(body: UpstreamSettings['body'], isOpenAi: boolean) {
    this.#body = body
    this.#usual = isOpenAi ? NEWER : OLDER
  }

  /** Adds this model's name for `max_tokens` to the format, if the job has that option. */
  named(format: RequestFormat, model: string, optionsJson: string): RequestFormat {
    if (!optionsJson.includes(MAX_TOKENS)) return format
    return withName(format, this.#nameFor(model))
  }

  /**
   * Returns the format with the other name, if the server rejects the name; null if it does not, or if both names were tried.
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

  /** Records that the server answered a request in this format. */
  answered(format: RequestFormat, model: string, optionsJson: string): void {
    if (optionsJson.includes(MAX_TOKENS)) this.#learned.set(model, nameIn(format))
  }

  /** Returns the end of a request's body: the upstream's setting `body`, with the job's options in place of equal names. */
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
