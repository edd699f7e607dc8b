/** Schemas of responses for the OpenAPI document (SPEC §2.5, §2.6, §7). The responses themselves are written as text. */
import Type, { type TSchema } from 'typebox'
import { exampleResponses } from './examples.ts'

const error = Type.Object({
  success: Type.Literal(false),
  message: Type.String(),
  details: Type.Optional(
    Type.String({ description: 'The field or rule that is concerned, and what to do.' }),
  ),
})

interface More {
  /** Headers in addition to the standard ones. */
  readonly headers?: Record<string, TSchema>
  /** Complete bodies. */
  readonly examples?: readonly object[]
}

export function success(description: string, data: TSchema, { headers = {}, examples = [] }: More = {}) {
  const body = Type.Object({ success: Type.Literal(true), message: Type.String(), data })
  return { ...body, description, headers, ...(examples.length > 0 && { examples }) }
}

const header = (description: string) => Type.String({ description })
const RATE_HEADERS = {
  'ratelimit-limit': header('Reads per minute.'),
  'ratelimit-remaining': header('Reads left in the current minute.'),
  'ratelimit-reset': header('Seconds until the next minute begins.'),
}
const IGNORED = {
  'x-parley-ignored': header(
    'JSON pointers to what the schema says and no answer is checked for: annotations, unknown keywords, formats that are not checked. Percent-encoded, separated by commas, at most 1 KB; `+3` at the end counts those that are left out. Absent if nothing is ignored.',
  ),
}
const RETRY_AFTER = { 'retry-after': header('Seconds after which to retry.') }
const READ_AFTER = { 'retry-after': header('Seconds after which to read the job.') }
const WAIT_AFTER = {
  'retry-after': header(
    'Seconds after which to ask again. Present only if the server did not wait as long as `wait` asks: too many requests wait, or the server stops.',
  ),
}

/** The request header that makes both kinds of create safe to repeat. */
export const idempotencyHeader = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      description:
        '1 to 255 visible ASCII characters. For 24 hours the same key with the same body returns the same job ids, and with another body 400.',
    }),
  ),
})

const result = Type.Union([Type.Object({ response_content: Type.Unknown() }), Type.Null()], {
  description: 'Present when the job is completed: a string for format text, any JSON value for format json.',
})

const jobError = Type.Union(
  [
    Type.Object(
      {
        code: Type.Enum([
          'timeout',
          'content_policy_violation',
          'model_error',
          'validation_error',
          'answer_not_checked',
          'cancelled',
          'internal_error',
        ]),
        message: Type.String(),
        upstream_status: Type.Optional(Type.Integer()),
        upstream_message: Type.Optional(Type.String()),
        errors: Type.Optional(Type.Array(Type.String())),
        raw_text: Type.Optional(Type.String()),
      },
      { description: 'Why the job failed.' },
    ),
    Type.Null(),
  ],
  { description: 'Present when the job has failed.' },
)

const jobId = Type.String({ format: 'uuid' })

const jobResult = Type.Object({
  status: Type.Enum(['pending', 'assigned', 'completed', 'failed']),
  job_id: jobId,
  created_at: Type.Integer({ description: 'Unix time in seconds.' }),
  result,
  error: jobError,
})

export const answers = {
  ended: success('The job ended within the wait: completed or failed.', jobResult, {
    headers: {
      ...IGNORED,
      'x-cache': header('`hit` when the job was completed from the cached response of an identical job.'),
    },
    examples: exampleResponses.ended,
  }),
  read: success('The job.', jobResult, {
    headers: { ...RATE_HEADERS, ...WAIT_AFTER },
    examples: exampleResponses.read,
  }),
  timedOut: success(
    'The job is created and still being processed; read it by its id.',
    Type.Object({ status: Type.Literal('timeout'), job_id: jobId }),
    {
      headers: { ...IGNORED, ...READ_AFTER, location: header('The address of the job.') },
      examples: exampleResponses.timedOut,
    },
  ),
  jobIds: success(
    'All jobs are enqueued. One id for each, in order.',
    Type.Object({ job_ids: Type.Array(jobId) }),
    { headers: { ...IGNORED, ...READ_AFTER }, examples: exampleResponses.jobIds },
  ),
  error,
} as const

const REASONS: Readonly<Record<number, string>> = {
  400: 'Invalid parameters.',
  401: 'The API key is missing or invalid.',
  403: 'The tier does not allow this.',
  404: 'The job does not exist or has expired.',
  409: 'Not possible in the current state.',
  413: 'The body is too large.',
  415: 'The body is not declared as application/json.',
  429: 'Rate limit exceeded; see Retry-After.',
  500: 'Internal server error.',
  503: 'Temporarily unavailable; nothing was created; see Retry-After.',
}

/** Documents these statuses as error responses. */
export function errors(...statuses: number[]): Record<number, object> {
  return Object.fromEntries(
    statuses.map((status) => [
      status,
      {
        ...error,
        description: REASONS[status] ?? 'Error.',
        headers: status === 429 ? { ...RATE_HEADERS, ...RETRY_AFTER } : status === 503 ? RETRY_AFTER : {},
      },
    ]),
  )
}

const sum = (description: string) => Type.Integer({ minimum: 0, description })

/** Usage, as in every response that reports it. */
export const usageSums = {
  jobs: sum('Jobs that ended, failed ones included.'),
  failed_jobs: sum('Jobs that failed.'),
  cache_hits: sum('Jobs completed from a cached response, without a call.'),
  calls: sum('Calls to model servers.'),
  input_tokens: sum('As the model servers counted them.'),
  output_tokens: sum('As the model servers counted them.'),
}
