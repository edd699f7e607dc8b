/** Describes `/v1` in an OpenAPI document. Its schemas validate nothing: `fields.ts` and its users check the bodies. */
import type { ApiDocument } from '../http/openapi/routes.ts'
import { ROLES } from '../job/job.ts'
import { jobOptions } from '../job/options.ts'
import { type Schema, Type } from '../typed-schema.ts'
import { V1_ERRORS } from './errors.ts'

export const V1_DOCUMENT: ApiDocument = {
  path: '/v1/openapi.json',
  prefix: V1_ERRORS.prefix,
  title: "Parley: OpenAI's API",
  description:
    "The routes of OpenAI's API that Parley supports, for its official clients: set their `base_url` to this server with `/v1`, and their API key to a key of Parley. Fields that are not listed and would change the answer are rejected with 400, which names the field in `param`; null and neutral values are accepted.",
  tags: [{ name: 'OpenAI', description: "Routes of OpenAI's API." }],
  securitySchemes: {
    bearer: { type: 'http', scheme: 'bearer', description: 'An API key of your account.' },
  },
}

export const DOCUMENTED = { tags: ['OpenAI'], security: [{ bearer: [] }] } as const

/** Turns off Fastify's validation, because the schemas of `/v1` only document. */
export const UNCHECKED = { validatorCompiler: () => () => true } as const

export const text = Type.String()
export const count = Type.Integer()
export const nullable = (schema: Schema) => Type.Union([schema, Type.Null()])
export const metadata = Type.Object(
  {},
  { additionalProperties: text, description: 'Up to 16 texts of up to 512 characters.' },
)

export const pageOf = (item: Schema, title: string) =>
  Type.Object(
    {
      object: Type.Literal('list'),
      data: Type.Array(item),
      first_id: nullable(text),
      last_id: nullable(text),
      has_more: Type.Boolean(),
    },
    { title },
  )

const error = Type.Object(
  {
    error: Type.Object({ message: text, type: text, param: nullable(text), code: nullable(text) }),
  },
  { title: 'Error' },
)

const HEADERS = {
  'x-should-retry': Type.String({
    description: 'Whether clients should retry; absent to let the status decide.',
  }),
  'retry-after-ms': Type.String({ description: 'Milliseconds to wait before the retry.' }),
}

const ERRORS: Readonly<Record<number, string>> = {
  400: 'A field is wrong or not supported; `param` names it.',
  401: 'The API key is missing or invalid.',
  403: 'The tier or a suspension forbids the request.',
  404: 'The model, the file or the path does not exist.',
  405: 'The path does not support this method.',
  408: 'The answer is not ready. If you send the request again, it waits for the same job.',
  409: 'The job was cancelled, or the Idempotency-Key was used with another body.',
  413: 'The body is too large.',
  415: 'The body has the wrong content type, or is compressed.',
  429: 'A rate limit, a quota or a cap is reached (quota and cap: `insufficient_quota`).',
  431: 'The request headers are too large.',
  500: 'Internal server error.',
  502: 'The job failed; `code` is that of the job.',
  503: 'Temporarily unavailable.',
  504: 'The job did not finish within its time limits.',
}

export const errorResponses: Readonly<Record<number, object>> = Object.fromEntries(
  Object.entries(ERRORS).map(([status, description]) => {
    return [status, { ...error, description, headers: HEADERS, responseName: `Error${status}` }]
  }),
)

const part = Type.Object({ type: Type.Literal('text'), text })

const message = Type.Object(
  { role: Type.Enum([...ROLES]), content: Type.Union([text, Type.Array(part)]) },
  { title: 'Message' },
)

const format = Type.Object(
  {
    type: Type.Enum(['text', 'json_object', 'json_schema']),
    json_schema: Type.Optional(
      Type.Object({ name: text, schema: Type.Object({}, { additionalProperties: true }) }),
    ),
  },
  {
    title: 'ResponseFormat',
    description:
      '`{ "type": "text" }`, `{ "type": "json_object" }`, or `{ "type": "json_schema", "json_schema": { "name", "schema" } }`.',
  },
)

const length = Type.Optional(
  Type.Integer({
    minimum: 1,
    description: 'Maximum tokens of the answer. A longer answer is cut, with the `finish_reason` `length`.',
  }),
)

export const chatBody = Type.Object(
  {
    model: Type.String({ description: 'A public model name.' }),
    messages: Type.Array(message, {
      description:
        'The conversation, in order. A message is `{ role, content }`; its content is a text, or a list of text parts.',
    }),
    response_format: Type.Optional(format),
    ...jobOptions.properties,
    max_tokens: length,
    max_completion_tokens: length,
  },
  { title: 'ChatCompletionRequest' },
)

export const chatCompletion = {
  ...Type.Object(
    {
      id: text,
      object: Type.Literal('chat.completion'),
      created: count,
      model: text,
      choices: Type.Array(
        Type.Object({
          index: count,
          message: Type.Object({ role: Type.Literal('assistant'), content: text, refusal: Type.Null() }),
          finish_reason: Type.Enum(['stop', 'length', 'content_filter']),
          logprobs: Type.Null(),
        }),
      ),
      usage: Type.Object({
        prompt_tokens: count,
        completion_tokens: count,
        total_tokens: count,
        prompt_tokens_details: Type.Object({ cached_tokens: count }),
      }),
    },
    { title: 'ChatCompletion' },
  ),
  description: 'The answer.',
}

const file = Type.Object(
  {
    id: text,
    object: Type.Literal('file'),
    bytes: count,
    created_at: count,
    expires_at: Type.Optional(count),
    filename: text,
    purpose: Type.String({ description: '`batch` for uploads.' }),
    status: Type.Literal('processed'),
  },
  { title: 'File' },
)

export const oneFile = { ...file, description: 'The file.' }
export const fileList = {
  ...pageOf(file, 'FileList'),
  description: 'A page of files.',
}
export const deletedFile = {
  ...Type.Object(
    { id: text, object: Type.Literal('file'), deleted: Type.Literal(true) },
    { title: 'DeletedFile' },
  ),
  description: 'The file was deleted.',
}
export const fileContent = {
  description: 'The content.',
  content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
}
/** A schema alone describes JSON, so this multipart body is written as in an OpenAPI document. */
export const uploadBody = {
  content: {
    'multipart/form-data': {
      schema: {
        type: 'object',
        required: ['file', 'purpose'],
        properties: {
          file: { type: 'string', format: 'binary' },
          purpose: { type: 'string', enum: ['batch'] },
          'expires_after[anchor]': { type: 'string', enum: ['created_at'] },
          'expires_after[seconds]': { type: 'integer', minimum: 3600, maximum: 2_592_000 },
        },
      },
    },
  },
}

const model = Type.Object(
  { id: text, object: Type.Literal('model'), created: count, owned_by: text },
  { title: 'Model' },
)

export const oneModel = { ...model, description: 'The model.' }
export const modelList = {
  ...Type.Object({ object: Type.Literal('list'), data: Type.Array(model) }, { title: 'ModelList' }),
  description: 'The models that the tier may use.',
}
