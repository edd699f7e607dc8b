/**
 * Writes `docs/api.md` from the OpenAPI documents of both APIs. The sections have the numbers of the interface specification, to
 * which comments and tests refer (`SPEC §4.3`).
 */
import { OPTION_NAMES } from '../src/job/options.ts'

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly enum?: readonly unknown[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly minimum?: number
  readonly maximum?: number
  readonly maxLength?: number
  readonly maxItems?: number
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly description?: string
  readonly schema: Schema
}

interface Operation {
  readonly summary: string
  readonly description?: string
  readonly parameters?: readonly Parameter[]
  readonly responses: Readonly<Record<string, unknown>>
}

export interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly responses: Readonly<Record<string, { readonly description: string }>>
  }
}

/** The routes are in the order of the specification's numbers. Routes that the specification lacks have our own numbers. */
const ROUTES: readonly (readonly [method: string, path: string])[] = [
  ['post', '/api/v1/messages/batches'],
  ['get', '/api/v1/messages/{jobId}'],
  ['post', '/api/v1/messages'],
  ['get', '/api/v1/messages'],
  ['post', '/api/v1/messages/{jobId}/cancel'],
  ['delete', '/api/v1/messages/{jobId}'],
  ['get', '/api/v1/me'],
]

/** Maps each code of a failed job to its meaning. */
const JOB_ERRORS: Readonly<Record<string, string>> = {
  timeout: 'One run took longer than `jobs.run_timeout_seconds`, or a call to the model server timed out',
  deadline_exceeded: 'The job did not finish within its `complete_within`',
  content_policy_violation: 'The model or its server refused the content',
  model_error:
    'The model server rejected the job, or was unavailable for longer than `jobs.patience_seconds`',
  validation_error: 'The answer is not JSON or violates the schema, even after one repair',
  answer_not_checked: 'Checking the answer against the schema took too many steps; simplify the schema',
  cancelled: 'Its caller or an operator cancelled it',
  internal_error: 'The job crashed its process three times, or the database rejected its outcome',
}

const STATUSES: Readonly<Record<string, string>> = {
  400: 'a parameter is wrong; `details` names it',
  401: 'the API key is missing or wrong',
  403: 'the tier, a quota, a cap or a suspension forbids it',
  404: 'the job does not exist, has expired, or belongs to another account',
  405: 'the path does not support the method',
  408: 'the request arrived too slowly',
  409: 'the state of the job does not allow it',
  413: 'the body is too large',
  415: 'the `content-type` is not `application/json`, or the body is compressed',
  429: 'a rate limit is reached; wait for `Retry-After`',
  431: 'the headers are too large',
  500: 'a bug in Parley',
  503: 'the server is overloaded, stopping, or without its database; wait for `Retry-After`. Nothing was changed, unless Postgres failed during the commit: then the request may have succeeded. With an `Idempotency-Key` it can be repeated safely',
}

export function apiPage(native: ApiDocument, v1: ApiDocument): string {
  const codes = native.components.schemas.JobErrorCode?.enum ?? []
  const unexplained = codes.filter((code) => !Object.hasOwn(JOB_ERRORS, String(code)))
  if (unexplained.length > 0)
    throw new Error(`scripts/api-page.ts does not explain ${unexplained.join(', ')}`)
  const fields = (name: string, without: readonly string[] = []) =>
    fieldTable(native.components.schemas[name] ?? {}, without, native)
  return `# API reference

A running server has the same reference at \`/docs\`, with examples to try, and as OpenAPI 3.1 at \`/openapi.json\` and \`/v1/openapi.json\`.
[Limits](limits.md) lists every limit. Fields with a * are required.

## 1. Jobs

A *job* is one conversation for a model to answer. You create it, Parley stores it, a node runs it, and it ends as \`completed\` or \`failed\`.

## 2. Objects

### 2.1 A job that you create

${fields('CreateMessageRequest')}

A job in a batch has the same fields, with [\`callback\`](#24-callback) instead of \`timeout\`.

### 2.2 response_format

${fields('ResponseFormat')}

### 2.3 A message

${fields('Message')}

### 2.4 callback

${fields('Callback')}

### 2.5 A job that you read

${fields('PendingJob', ['result', 'error', 'status'])}
| \`status\` * | text | see [states](#3-states) |
| \`result\` * | object or null | \`{ response_content }\` when completed: a string for the format \`text\`, any JSON value for \`json\` |
| \`error\` * | object or null | when failed: see [error](#job-errors) |

\`usage\`:

${fields('JobUsage')}

### 2.6 The envelope

Every response is \`{ "success": true, "message": …, "data": … }\` or \`{ "success": false, "message": …, "details": … }\`. Each has the
header \`x-request-id\`, which the server's log also contains.

### 2.7 options

${fields('Options')}

## 3. States

\`\`\`text
           a node starts the job           the answer is stored
 pending ────────────────────────▶ assigned ────────────────────▶ completed
      │                                  │
      │                                  └── error, time limit, cancelled ──▶ failed
      └── cancelled, deadline ──────────────────────────────────────────────▶ failed
\`\`\`

If the node stops or crashes, or no model server is available, the job is queued again. It is still \`assigned\`, because a status never changes back to
\`pending\`. \`completed\` and \`failed\` are final. You can read a finished job for \`jobs.retention_seconds\`.

## 4. Routes

All routes need the header \`x-api-key\`. Several take these parameters:

${parameterTable(sharedParameters(native))}

${ROUTES.map(([method, path], index) => routeSection(native, `4.${index + 1}`, method, path)).join('\n\n')}

## 5. Authentication

An API key belongs to an account. Send it as \`x-api-key: prl_…\`; below \`/v1\`, as \`Authorization: Bearer prl_…\`. If the key is missing, wrong,
expired or revoked, the request gets 401.

## 6. Callbacks

Parley posts the job, with your \`callback_payload\`, to \`callback_url\` when it ends: [callbacks](callbacks.md).

## 7. Errors

| status | meaning |
|---|---|
${statusRows(native, STATUSES).join('\n')}

### Job errors

A failed job has \`error\`:

${fields('JobError')}

| code | meaning |
|---|---|
${codes.map((code) => `| \`${code}\` | ${JOB_ERRORS[String(code)]} |`).join('\n')}

## 8. OpenAI's API

[OpenAI's API](openai.md) explains how these routes behave.

| route | what it does |
|---|---|
${routeRows(v1)}

### 8.1 Fields of a chat completion

${fieldTable(v1.components.schemas.ChatCompletionRequest ?? {}, OPTION_NAMES, v1, {})}

### 8.2 Fields of a response

${fieldTable(v1.components.schemas.CreateResponseRequest ?? {}, OPTION_NAMES, v1)}

\`temperature\`, \`top_p\`, \`max_tokens\`, \`stop\`, \`seed\`, the penalties, \`reasoning_effort\` and \`verbosity\` mean what they mean in [options](#27-options).

### 8.3 Fields of a batch

${fieldTable(v1.components.schemas.CreateBatchRequest ?? {}, [], v1)}

### 8.4 Errors

Errors have the shape \`{ "error": { "message", "type", "param", "code" } }\`. Statuses: [these](openai.md#errors) and [common ones](#7-errors).
`
}

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

function fieldTable(
  { properties = {}, required = [] }: Schema,
  without: readonly string[],
  { components }: ApiDocument,
  sections = SECTIONS,
): string {
  const meaningOf = ({ description, $ref }: Schema) =>
    description ?? components.schemas[$ref?.replace(/.*\//, '') ?? '']?.description ?? ''
  const rows = Object.entries(properties)
    .filter(([name]) => !without.includes(name))
    .map(([name, schema]) => {
      const needed = required.includes(name) ? ' *' : ''
      return `| \`${name}\`${needed} | ${typeOf(schema, sections)} | ${cell(meaningOf(schema))} |`
    })
  return ['| field | type | meaning |', '|---|---|---|', ...rows].join('\n')
}

/** Maps objects to the sections of the page that describe them. */
const SECTIONS: Readonly<Record<string, string>> = {
  ResponseFormat: '[format](#22-response_format)',
  Message: '[message](#23-a-message)',
  Options: '[options](#27-options)',
  JobUsage: '[usage](#25-a-job-that-you-read)',
  JobErrorCode: '[code](#job-errors)',
  Metadata: 'object of strings',
  Role: '`system`, `developer`, `assistant`, `user`',
}

/** Describes a type in words, with its range. */
function typeOf(schema: Schema, sections = SECTIONS): string {
  const { $ref, type = 'any value', items, minimum, maximum, maxLength, maxItems } = schema
  if ($ref !== undefined) return sections[$ref.replace(/.*\//, '')] ?? 'object'
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) {
    const [first = '', ...others] = new Set(choices.map((choice) => typeOf(choice, sections)))
    return [first, ...others.map((one) => one.replace(`of ${first}`, 'of these'))].join(' or ')
  }
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${value}\``).join(', ')
  if (items !== undefined)
    return `array of ${typeOf(items, sections)}${maxItems === undefined ? '' : ` (up to ${maxItems})`}`
  const isRange = minimum !== undefined && maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER
  if (isRange) return `${type}, ${minimum} to ${maximum}`
  return maxLength === undefined ? type : `${type} (up to ${maxLength} characters)`
}

function routeSection({ paths }: ApiDocument, number: string, method: string, path: string): string {
  const operation = paths[path]?.[method]
  if (operation === undefined) throw new Error(`the document has no ${method} ${path}`)
  const { summary, description, parameters = [], responses } = operation
  const own = parameters.filter(
    ({ in: place, name }) => place !== 'path' && !SHARED_PARAMETERS.includes(name),
  )
  const shared = SHARED_PARAMETERS.filter((shared) => parameters.some(({ name }) => name === shared))
  const statuses = Object.keys(responses).filter((status) => !EVERYWHERE.has(status))
  return [
    `### ${number} ${method.toUpperCase()} ${path}`,
    `${summary}. ${description ?? ''}`.trim(),
    ...(own.length === 0 ? [] : [parameterTable(own)]),
    `${shared.length === 0 ? '' : `Shared parameters: ${shared.map((name) => `\`${name}\``).join(', ')}. `}Statuses: ${statuses.join(', ')} and [common ones](#7-errors).`,
  ].join('\n\n')
}

const SHARED_PARAMETERS = ['include', 'wait', 'idempotency-key']

/** Parameters that mean the same for several routes are described once. */
function sharedParameters({ paths }: ApiDocument): readonly Parameter[] {
  const all = ROUTES.flatMap(([method, path]) => paths[path]?.[method]?.parameters ?? [])
  return SHARED_PARAMETERS.flatMap((name) => all.find((parameter) => parameter.name === name) ?? [])
}

function parameterTable(parameters: readonly Parameter[]): string {
  const rows = parameters.map(
    ({ name, in: place, schema, description: meaning = '' }) =>
      `| \`${name}\` (${place}) | ${typeOf(schema)} | ${cell(meaning)} |`,
  )
  return ['| parameter | type | meaning |', '|---|---|---|', ...rows].join('\n')
}

/** Any request may get these statuses, so routes do not list them. */
const EVERYWHERE = new Set(['400', '401', '405', '408', '413', '415', '431', '500', '503'])

function routeRows({ paths }: ApiDocument): string {
  return Object.entries(paths)
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(
        ([method, { summary }]) => `| \`${method.toUpperCase()} ${path}\` | ${summary} |`,
      ),
    )
    .join('\n')
}

function statusRows({ paths }: ApiDocument, meanings: Readonly<Record<string, string>>): readonly string[] {
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
  const statuses = new Set(operations.flatMap(({ responses }) => Object.keys(responses)))
  return [...statuses]
    .filter((status) => Number(status) >= 400)
    .toSorted()
    .map((status) => {
      const meaning = meanings[status]
      if (meaning === undefined) throw new Error(`scripts/api-page.ts does not explain ${status}`)
      return `| ${status} | ${meaning} |`
    })
}
