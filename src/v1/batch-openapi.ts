/** The schemas of the routes of batches, for the OpenAPI document of `/v1`. */
import { Type } from '../typed-schema.ts'
import { count, DOCUMENTED, errorResponses, metadata, nullable, pageOf, text } from './openapi.ts'

const time = Type.Optional(Type.Integer({ description: 'Unix seconds.' }))
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
    in_progress_at: time,
    finalizing_at: time,
    completed_at: time,
    failed_at: time,
    expired_at: time,
    cancelling_at: time,
    cancelled_at: time,
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

const list = pageOf(batch, 'BatchList')

const body = Type.Object(
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

const params = Type.Object({ batch: text })
const one = { 200: { ...batch, description: 'The batch.' }, ...errorResponses }

export const BATCH_SCHEMAS = {
  create: { ...DOCUMENTED, operationId: 'createBatch', summary: 'Create a batch', body, response: one },
  list: {
    ...DOCUMENTED,
    operationId: 'listBatches',
    summary: 'List your batches, newest first',
    querystring: Type.Object({
      after: Type.Optional(Type.String({ description: 'The `id` of the last batch of the previous page.' })),
      limit: Type.Optional(Type.String({ description: 'From 1 to 100; 20 by default.' })),
    }),
    response: { 200: { ...list, description: 'A page of batches.' }, ...errorResponses },
  },
  retrieve: {
    ...DOCUMENTED,
    operationId: 'retrieveBatch',
    summary: 'Retrieve a batch',
    params,
    response: one,
  },
  cancel: {
    ...DOCUMENTED,
    operationId: 'cancelBatch',
    summary: 'Cancel the unfinished lines of a batch',
    params,
    response: one,
  },
} as const
