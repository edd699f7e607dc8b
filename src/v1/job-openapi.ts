/** Defines `/v1/responses`, `/v1/batches` and their webhooks for the OpenAPI document of `/v1`. */
import { type DeclaredOperation, jobEndedWebhook } from '../http/openapi/build-document.ts'
import { ROLES } from '../job/job.ts'
import { jobOptions } from '../job/options.ts'
import { type Schema, Type } from '../typed-schema.ts'
import { count, DOCUMENTED, errorResponses, metadata, nullable, pageOf, text } from './openapi.ts'

const anyFields = Type.Object({}, { additionalProperties: true })
const id = Type.String({ description: 'Begins with `resp_`.' })
const { temperature, top_p, reasoning_effort, verbosity } = jobOptions.properties

const format = Type.Object(
  {
    type: Type.Enum(['text', 'json_object', 'json_schema']),
    name: Type.Optional(text),
    description: Type.Optional(text),
    strict: Type.Optional(Type.Boolean()),
    schema: Type.Optional(anyFields),
  },
  { title: 'TextFormat' },
)

const itemText = Type.Object({ type: Type.Enum(['input_text', 'output_text']), text })

const inputItem = Type.Object(
  {
    type: Type.Optional(Type.Literal('message')),
    role: Type.Enum([...ROLES]),
    content: Type.Union([text, Type.Array(itemText)]),
  },
  { title: 'InputItem' },
)

const createBody = Type.Object(
  {
    model: Type.String({ description: 'A public model name.' }),
    input: Type.Union([text, Type.Array(inputItem)], { description: 'A text, or the messages in order.' }),
    instructions: Type.Optional(Type.String({ description: 'The first message, with the role `system`.' })),
    background: Type.Optional(
      Type.Boolean({ description: 'Whether to run the response in the background and return at once.' }),
    ),
    text: Type.Optional(
      Type.Object(
        { format: Type.Optional(format), verbosity },
        { description: 'The `format` and `verbosity` of the answer.' },
      ),
    ),
    reasoning: Type.Optional(
      Type.Object(
        { effort: reasoning_effort },
        { description: '`effort`: how much the model thinks before it answers.' },
      ),
    ),
    max_output_tokens: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'Maximum tokens of the answer. If a longer answer is cut, the response is `incomplete`.',
      }),
    ),
    temperature,
    top_p,
    metadata: Type.Optional(metadata),
  },
  { title: 'CreateResponseRequest' },
)

const storedItem = (types: readonly string[]) =>
  Type.Object({
    id: text,
    type: Type.Literal('message'),
    role: Type.Enum([...ROLES]),
    status: Type.Enum(['completed', 'incomplete']),
    content: Type.Array(
      Type.Object({
        type: Type.Enum([...types]),
        text,
        annotations: Type.Optional(Type.Array(anyFields)),
        logprobs: Type.Optional(Type.Array(anyFields)),
      }),
    ),
  })

const usage = Type.Object({
  input_tokens: count,
  input_tokens_details: Type.Object({ cached_tokens: count, cache_write_tokens: count }),
  output_tokens: count,
  output_tokens_details: Type.Object({ reasoning_tokens: count }),
  total_tokens: count,
})

const response = Type.Object(
  {
    id,
    object: Type.Literal('response'),
    created_at: count,
    status: Type.Enum(['queued', 'in_progress', 'completed', 'failed', 'cancelled', 'incomplete']),
    background: Type.Boolean(),
    error: nullable(Type.Object({ code: text, message: text })),
    incomplete_details: nullable(Type.Object({ reason: Type.Enum(['max_output_tokens', 'content_filter']) })),
    instructions: nullable(text),
    model: text,
    max_output_tokens: nullable(count),
    metadata,
    output: Type.Array(storedItem(['output_text'])),
    parallel_tool_calls: Type.Boolean(),
    previous_response_id: Type.Null(),
    reasoning: Type.Object({ effort: nullable(text), summary: Type.Null() }),
    temperature: Type.Number(),
    text: Type.Object({ format, verbosity }),
    tool_choice: Type.Literal('auto'),
    tools: Type.Array(anyFields),
    top_p: Type.Number(),
    truncation: Type.Literal('disabled'),
    usage: Type.Optional(usage),
    access_programs: Type.Null(),
  },
  { title: 'Response' },
)

const deleted = Type.Object(
  { id, object: Type.Literal('response'), deleted: Type.Literal(true) },
  { title: 'DeletedResponse' },
)

const itemList = pageOf(storedItem(['input_text', 'output_text']), 'InputItemList')

const params = Type.Object({ id })
const answer = (schema: Schema, description: string) => ({
  response: { 200: { ...schema, description }, ...errorResponses },
})

export const RESPONSE_SCHEMAS = {
  create: {
    ...DOCUMENTED,
    operationId: 'createResponse',
    summary: 'Create a response, and wait for it or run it in the background',
    body: createBody,
    ...answer(response, 'The response: queued if it runs in the background, else completed or incomplete.'),
  },
  retrieve: {
    ...DOCUMENTED,
    operationId: 'retrieveResponse',
    summary: 'Retrieve a response',
    params,
    ...answer(response, 'The response.'),
  },
  cancel: {
    ...DOCUMENTED,
    operationId: 'cancelResponse',
    summary: 'Cancel a response',
    params,
    ...answer(response, 'The response: cancelled, or as it ended before.'),
  },
  delete: {
    ...DOCUMENTED,
    operationId: 'deleteResponse',
    summary: 'Delete a response, finished or not',
    params,
    ...answer(deleted, 'The response was deleted.'),
  },
  inputItems: {
    ...DOCUMENTED,
    operationId: 'listInputItems',
    summary: 'List the input of a response',
    params,
    querystring: Type.Object({
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
      order: Type.Optional(Type.Enum(['asc', 'desc'], { default: 'desc' })),
      after: Type.Optional(Type.String({ description: 'The `id` of the last item of the previous page.' })),
    }),
    ...answer(itemList, 'A page of the items, without the instructions.'),
  },
} as const

const batchTime = Type.Optional(Type.Integer({ description: 'Unix seconds.' }))
const endpoint = Type.Enum(['/v1/chat/completions', '/v1/responses'])
const problem = Type.Object({ code: text, message: text, line: nullable(count), param: nullable(text) })

const batch = Type.Object(
  {
    id: Type.String({ description: 'Begins with `batch_`.' }),
    object: Type.Literal('batch'),
    endpoint,
    errors: Type.Optional(
      Type.Object(
        { object: Type.Literal('list'), data: Type.Array(problem) },
        { description: 'The errors of lines; while the batch runs, why no further lines start.' },
      ),
    ),
    input_file_id: text,
    completion_window: text,
    status: Type.Enum([
      'validating',
      'failed',
      'in_progress',
      'completed',
      'expired',
      'cancelling',
      'cancelled',
    ]),
    output_file_id: Type.Optional(text),
    error_file_id: Type.Optional(text),
    created_at: count,
    expires_at: count,
    in_progress_at: batchTime,
    finalizing_at: batchTime,
    completed_at: batchTime,
    failed_at: batchTime,
    expired_at: batchTime,
    cancelling_at: batchTime,
    cancelled_at: batchTime,
    request_counts: Type.Object({ total: count, completed: count, failed: count }),
    usage: Type.Object({
      input_tokens: count,
      input_tokens_details: Type.Object({ cached_tokens: count }),
      output_tokens: count,
      output_tokens_details: Type.Object({ reasoning_tokens: count }),
      total_tokens: count,
    }),
    metadata: nullable(metadata),
  },
  { title: 'Batch' },
)

const batchPage = pageOf(batch, 'BatchList')

const batchBody = Type.Object(
  {
    input_file_id: Type.String({
      description: 'A file with the purpose `batch`: one JSON object per line.',
    }),
    endpoint,
    completion_window: Type.Literal('24h'),
    metadata: Type.Optional(metadata),
    output_expires_after: Type.Optional(
      Type.Object(
        {
          anchor: Type.Literal('created_at'),
          seconds: Type.Integer({ minimum: 3600, maximum: 2_592_000 }),
        },
        { description: 'When the files of its results expire.' },
      ),
    ),
  },
  { title: 'CreateBatchRequest' },
)

const batchParams = Type.Object({ batch: text })
const oneBatch = { 200: { ...batch, description: 'The batch.' }, ...errorResponses }

export const BATCH_SCHEMAS = {
  create: {
    ...DOCUMENTED,
    operationId: 'createBatch',
    summary: 'Create a batch',
    body: batchBody,
    response: oneBatch,
  },
  list: {
    ...DOCUMENTED,
    operationId: 'listBatches',
    summary: 'List your batches, newest first',
    querystring: Type.Object({
      after: Type.Optional(Type.String({ description: 'The `id` of the last batch of the previous page.' })),
      limit: Type.Optional(Type.String({ description: 'From 1 to 100; 20 by default.' })),
    }),
    response: { 200: { ...batchPage, description: 'A page of batches.' }, ...errorResponses },
  },
  retrieve: {
    ...DOCUMENTED,
    operationId: 'retrieveBatch',
    summary: 'Retrieve a batch',
    params: batchParams,
    response: oneBatch,
  },
  cancel: {
    ...DOCUMENTED,
    operationId: 'cancelBatch',
    summary: 'Cancel the unfinished lines of a batch',
    params: batchParams,
    response: oneBatch,
  },
} as const

function endedWebhook(what: 'response' | 'batch', summary: string, endings: string[]): DeclaredOperation {
  const body = Type.Object(
    {
      id: Type.String({ description: 'The same in each attempt.' }),
      object: Type.Literal('event'),
      created_at: Type.Integer({ description: `When the ${what} ended (Unix seconds).` }),
      type: Type.Enum(endings.map((ending) => `${what}.${ending}`)),
      data: Type.Object({ id: Type.String({ description: `Of the ${what}.` }) }),
    },
    { title: what === 'response' ? 'ResponseEvent' : 'BatchEvent' },
  )
  const description =
    'Sent to the address that the operator set for the account, and retried until you respond with a 2xx status. Expect duplicates.'
  const { tags } = DOCUMENTED
  const schema = { ...jobEndedWebhook.schema, operationId: `${what}Ended`, summary, description, tags, body }
  return { ...jobEndedWebhook, schema }
}

export const V1_WEBHOOKS = {
  responseEnded: endedWebhook('response', 'A background response has ended', [
    'completed',
    'incomplete',
    'failed',
    'cancelled',
  ]),
  batchEnded: endedWebhook('batch', 'A batch has ended', ['completed', 'failed', 'expired', 'cancelled']),
}
