/** The schema of a job creation object (SPEC §2.1 to §2.4). The API reference is generated from its descriptions. */
import { type Static, Type } from '../typed-schema.ts'
import { CACHE_TTL_S, COMPLETE_WITHIN_S, TIMEOUT_S } from './field-rules.ts'
import { ROLES } from './job.ts'
import { INCLUDES } from './job-record.ts'
import { jobOptions } from './options.ts'
import { PRIORITIES } from './priority.ts'

export const MODEL_NAME = '^[A-Za-z0-9_.:/-]{1,64}$'

const strict = { additionalProperties: false } as const

const message = Type.Object(
  {
    role: Type.Enum([...ROLES], { title: 'Role', description: 'The author of the message.' }),
    content: Type.String({ description: 'The text of the message; may be empty.' }),
  },
  { ...strict, title: 'Message', description: 'One turn of the conversation.' },
)

const responseFormat = Type.Object(
  {
    format: Type.Enum(['text', 'json'], { description: 'The format of the answer.' }),
    schema: Type.Optional(
      Type.Object(
        {},
        {
          additionalProperties: true,
          description:
            'Only with `json`: the JSON Schema that the answer must satisfy. If absent, any JSON value is accepted. At most 256 KiB (limits.schema_bytes).',
        },
      ),
    ),
  },
  { ...strict, title: 'ResponseFormat', description: 'The required format of the answer.' },
)

const callback = Type.Object(
  {
    callback_url: Type.String({
      minLength: 1,
      maxLength: 2048,
      description: 'The http or https URL that receives a POST when the job finishes.',
    }),
    callback_headers: Type.Optional(
      Type.Record(Type.String(), { description: 'Additional headers for that POST.' }),
    ),
    callback_payload: Type.Optional(
      Type.Object(
        {},
        {
          additionalProperties: true,
          description:
            'Sent back unchanged in the POST; `{}` by default. At most 64 KiB (limits.callback_payload_bytes).',
        },
      ),
    ),
    include: Type.Optional(
      Type.Array(Type.Enum([...INCLUDES]), {
        maxItems: 16,
        description: 'What to add to the POST, as in reads with `?include=usage,metadata`.',
      }),
    ),
  },
  {
    ...strict,
    title: 'Callback',
    description: 'Where to send the result when the job finishes. Only for batch elements.',
  },
)

const metadataValue = Type.String({ maxLength: 512 })
const METADATA_KEYS = { maxProperties: 16, propertyNames: { maxLength: 64 } } as const

const metadata = Type.Record(metadataValue, {
  ...METADATA_KEYS,
  title: 'Metadata',
  description:
    'Your own labels for the job, returned by reads with `?include=metadata`: up to 16 keys of 64 characters, with values of 512. Models do not see them.',
})

export type Metadata = Static<typeof metadata>

/** The query parameter that filters lists of jobs. `convertQuery` assembles it from several parameters. */
export const metadataFilter = Type.Optional(
  Type.Record(metadataValue, {
    ...METADATA_KEYS,
    description: 'Only jobs whose `metadata` has all of these pairs, such as `metadata[customer]=acme`.',
    examples: [{ customer: 'acme' }],
  }),
)

const common = {
  model: Type.String({ description: 'A public model name, such as `gpt-auto` or `gpt-5-mini`.' }),
  message_cache_ttl: Type.Optional(
    Type.Number({
      minimum: CACHE_TTL_S.least,
      maximum: CACHE_TTL_S.most,
      default: CACHE_TTL_S.default,
      description: 'How many seconds the answer is cached for identical jobs of your account.',
    }),
  ),
  response_format: responseFormat,
  messages: Type.Array(message, {
    description: 'The conversation, in order. At least one message must have the role `user`.',
  }),
  options: Type.Optional(jobOptions),
  metadata: Type.Optional(metadata),
  priority: Type.Optional(
    Type.Enum([...PRIORITIES], {
      description:
        'Jobs of a higher priority start first. Default: `normal`. Your tier decides which values you can use.',
    }),
  ),
  complete_within: Type.Optional(
    Type.Integer({
      minimum: COMPLETE_WITHIN_S.least,
      maximum: COMPLETE_WITHIN_S.most,
      description:
        'Seconds from the creation of the job to its deadline. A job that has not finished by then fails with `deadline_exceeded`. Default: no deadline.',
    }),
  ),
}

export const singleCreate = Type.Object(
  {
    ...common,
    timeout: Type.Optional(
      Type.Number({
        minimum: TIMEOUT_S.least,
        maximum: TIMEOUT_S.most,
        default: TIMEOUT_S.default,
        description: 'Maximum seconds to wait for the answer. Not in a batch.',
      }),
    ),
  },
  { ...strict, title: 'CreateMessageRequest' },
)

export const batchElement = Type.Object(
  { ...common, callback: Type.Optional(callback) },
  { ...strict, title: 'BatchElement' },
)

export type SingleCreate = Static<typeof singleCreate>
export type BatchElement = Static<typeof batchElement>

/**
 * Each of these fields belongs to only one kind of body. The text is the end of the error message if the other kind has the
 * field.
 */
export const BELONGS: Readonly<Record<string, string>> = {
  timeout: 'is only for single creates (POST /api/v1/messages); a batch runs asynchronously',
  callback:
    'is only for batch elements (POST /api/v1/messages/batches); a single create returns the answer in its response',
}
