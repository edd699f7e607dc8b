/** Defines the responses in the OpenAPI documents (SPEC §2.6, §7). Actual responses are not checked against these schemas. */

import { type Schema, Type } from '../../typed-schema.ts'
import {
  HttpError,
  internalError,
  invalid,
  keyRequired,
  methodNotAllowed,
  noSuchJob,
  notJsonType,
  tooLarge,
  tooManyReads,
} from '../errors.ts'
import { unavailable } from '../load-shedding/unavailable.ts'
import { SIMULATED_HEADER } from '../parley-headers.ts'
import { exampleResponses } from './examples.ts'
import { createdBatch, endedJob, job, timedOut } from './job-schemas.ts'

const error = Type.Object(
  {
    success: Type.Literal(false),
    message: Type.String({ description: 'What is wrong.' }),
    details: Type.Optional(
      Type.String({ description: 'The field or rule that the error is about, and what to do.' }),
    ),
  },
  { title: 'Error', description: 'Every error has this shape.' },
)

interface More {
  readonly headers?: Record<string, Schema>
  readonly examples?: readonly object[]
}

export function success(description: string, data: Schema, { headers = {}, examples = [] }: More = {}) {
  const body = Type.Object({
    success: Type.Literal(true),
    message: Type.String({ description: 'A message for people.' }),
    data,
  })
  return { ...body, description, headers, ...(examples.length > 0 && { examples }) }
}

const header = (description: string) => Type.String({ description })

/** The documents list this header for every response. */
export const REQUEST_ID = {
  description: "The ID of the request in the server's log: the request's own X-Request-Id if that is valid.",
  schema: { type: 'string' },
}
export const RATE_HEADERS = {
  'ratelimit-limit': header('Maximum reads per minute.'),
  'ratelimit-remaining': header('Remaining reads in the current minute.'),
  'ratelimit-reset': header('Seconds until the next minute starts.'),
}
const IGNORED = {
  'x-parley-ignored': header(
    'JSON pointers to the parts of the schema that are not checked: annotations, unknown keywords and unsupported formats. Percent-encoded, separated by commas, at most 1 KB; a final `+3` means that three more were omitted. Absent if everything is checked.',
  ),
}
export const RETRY_AFTER = { 'retry-after': header('Seconds to wait before you retry.') }
const READ_AFTER = { 'retry-after': header('Seconds to wait before you read the job.') }
export const WAIT_AFTER = {
  'retry-after': header(
    'Seconds to wait before you ask again. Present only if the server responded before the end of `wait`, because it is full or shutting down.',
  ),
}
const SIMULATED = {
  [SIMULATED_HEADER]: header('`true` while the simulator answers instead of models; otherwise absent.'),
}
const ALLOW = { allow: header('The methods that the path supports, such as `GET, HEAD, OPTIONS`.') }

/** With this header, a client can safely repeat a create request. */
export const idempotencyHeader = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      description:
        '1 to 255 visible ASCII characters. For 24 hours, a request with the same key and the same body returns the same job IDs; with a different body, it gets 400.',
      examples: ['order-7-summary'],
    }),
  ),
})

export const answers = {
  ended: success('The job has finished: it completed or failed.', endedJob, {
    headers: {
      ...IGNORED,
      ...SIMULATED,
      'x-cache': header('`hit` if the job was completed from the cached response of an identical job.'),
    },
    examples: exampleResponses.ended,
  }),
  read: success('The job.', job, {
    headers: { ...RATE_HEADERS, ...WAIT_AFTER, ...SIMULATED },
    examples: exampleResponses.read,
  }),
  timedOut: success('The job was created and is still being processed. Read it by its ID.', timedOut, {
    headers: { ...IGNORED, ...SIMULATED, ...READ_AFTER, location: header('The path of the job.') },
    examples: exampleResponses.timedOut,
  }),
  jobIds: success('All jobs are enqueued. The response has one ID per job, in order.', createdBatch, {
    headers: { ...IGNORED, ...SIMULATED, ...READ_AFTER },
    examples: exampleResponses.jobIds,
  }),
} as const

interface ErrorResponse {
  /** The document has the response under this name in `components.responses`. */
  readonly name: string
  readonly description: string
  readonly headers?: Record<string, Schema>
  readonly example: HttpError
}

export type ErrorResponses = Readonly<Record<number, ErrorResponse>>

export const ERRORS: ErrorResponses = {
  400: {
    name: 'BadRequest',
    description: 'The parameters are invalid, or the request is not valid HTTP.',
    example: invalid('messages: must contain at least one message whose role is user'),
  },
  401: {
    name: 'Unauthorized',
    description: 'The API key is missing or invalid.',
    example: keyRequired('missing'),
  },
  403: {
    name: 'Forbidden',
    description: 'The tier, a quota, a cap or a suspension forbids the request.',
    example: new HttpError(403, 'Insufficient permissions: tier user_free cannot use model gpt-5.'),
  },
  404: { name: 'NotFound', description: 'The job does not exist or has expired.', example: noSuchJob() },
  405: {
    name: 'MethodNotAllowed',
    description: 'The path does not support this method. See Allow.',
    headers: ALLOW,
    example: methodNotAllowed('PUT', '/api/v1/messages', 'GET, HEAD, OPTIONS, POST'),
  },
  408: {
    name: 'RequestTimeout',
    description: 'The request did not arrive in time.',
    example: new HttpError(408, 'The request did not arrive in time.'),
  },
  409: {
    name: 'Conflict',
    description: 'Not possible in the current state. See details.',
    example: new HttpError(409, 'The job has already finished.'),
  },
  413: { name: 'ContentTooLarge', description: 'The body is too large.', example: tooLarge(1_048_576) },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The body is not declared as application/json, or it is compressed.',
    example: notJsonType(),
  },
  429: {
    name: 'TooManyRequests',
    description: 'A per-minute limit was reached. See Retry-After.',
    headers: { ...RATE_HEADERS, ...RETRY_AFTER },
    example: tooManyReads(120, 17),
  },
  431: {
    name: 'RequestHeaderFieldsTooLarge',
    description: 'The request headers are too large.',
    example: new HttpError(431, 'The request headers are too large.'),
  },
  500: { name: 'InternalServerError', description: 'Internal server error.', example: internalError() },
  503: {
    name: 'ServiceUnavailable',
    description:
      'Temporarily unavailable. See Retry-After. Nothing was created or changed, unless Postgres failed during the commit: then the request may have succeeded. With an Idempotency-Key it can be repeated safely.',
    headers: RETRY_AFTER,
    example: unavailable(),
  },
}

/** Documents these statuses as error responses of a route for callers. */
export function errors(...statuses: number[]): Record<number, object> {
  return errorResponses(ERRORS, statuses)
}

export function errorResponses(known: ErrorResponses, statuses: readonly number[]): Record<number, object> {
  return Object.fromEntries(
    statuses.map((status) => {
      const response = known[status]
      if (response === undefined) throw new Error(`no error response is described for ${status}`)
      const { name, description, headers = {}, example } = response
      return [status, { ...error, description, headers, examples: [bodyOf(example)], responseName: name }]
    }),
  )
}

function bodyOf({ message, details }: HttpError): object {
  return { success: false, message, ...(details !== undefined && { details }) }
}
