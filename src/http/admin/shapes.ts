/** Schemas that several routes of the admin API share, for validation and for the OpenAPI document. */
import Type, { type TSchema } from 'typebox'
import { ACCOUNT_NAME } from '../../accounts/issue-key.ts'
import { MODEL_NAME } from '../../job/request.ts'
import { TIER_NAMES } from '../../job/tier.ts'
import { CALLBACK_STATES } from '../../store/callback-store.ts'
import { MAX_SCANNED } from '../../store/pagination.ts'
import { noSuchJob, tokenRequired, tooManyWrongTokens } from '../errors.ts'
import { ERRORS, type ErrorResponses, errorResponses, RETRY_AFTER } from '../openapi/schemas.ts'

export const strict = { additionalProperties: false } as const

export const orNull = (schema: TSchema) => Type.Union([schema, Type.Null()])

export const unixTime = (description: string) => Type.Number({ description: `${description} (Unix seconds)` })
export const unixTimeOrNull = (description: string) =>
  Type.Union([Type.Number(), Type.Null()], { description: `${description} (Unix seconds)` })

export const count = Type.Integer({ minimum: 0 })
export const tierName = Type.Enum([...TIER_NAMES])
export const callbackState = Type.Enum([...CALLBACK_STATES], { description: 'The state of the callback.' })

/** Other names cannot exist, and some databases reject characters such as NUL, so they are rejected without a query. */
export const accountName = Type.String({
  pattern: ACCOUNT_NAME.source,
  description: 'The name of an account.',
  examples: ['acme'],
})
export const modelName = Type.String({
  pattern: MODEL_NAME,
  description: 'A public model name.',
  examples: ['gpt-5-mini'],
})

/** Rows in one response. */
export const LIMIT = { most: 200, default: 50 } as const

export const limit = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: LIMIT.most,
    default: LIMIT.default,
    description: 'The maximum number of results.',
    examples: [100],
  }),
)

export const more = Type.Boolean({ description: 'Whether there are more results.' })

export const next = (parameter: string) =>
  Type.Union([Type.String(), Type.Null()], {
    description: `Pass this value as \`${parameter}\` to get the next page.`,
  })

/** For searches that examine a limited number of rows. */
export const paging = {
  more,
  complete: Type.Boolean({
    description: `False if the search stopped after examining ${MAX_SCANNED} rows; continue with \`next\`.`,
  }),
  next: next('before'),
}

export const nameParam = Type.Object({
  name: Type.String({ description: 'The account.', examples: ['acme'] }),
})

const cap = (description: string) =>
  Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Enum(['none', 'tier'])], {
    description: `${description}; \`none\` removes the cap, \`tier\` restores the tier's cap.`,
  })

export const caps = {
  max_monthly_jobs: cap('Jobs in a calendar month (UTC)'),
  max_monthly_tokens: cap('Input and output tokens in a calendar month (UTC)'),
  max_open_jobs: cap('Jobs that are queued or running at the same time'),
  max_stored_bytes: cap('Bytes stored by jobs until they expire or are deleted'),
}

export const scrubQuery = Type.Object(
  {
    scrub: Type.Optional(
      Type.Enum(['true', 'false'], {
        description:
          'Whether to scrub deleted data from the disk; `true` if absent. On SQLite this rewrites the whole file and blocks other writes meanwhile.',
      }),
    ),
  },
  strict,
)

export const attempt = Type.Object({
  attempt: count,
  at: unixTime('When it started'),
  ms: Type.Number(),
  status: orNull(Type.Integer()),
  error: orNull(Type.String()),
  answer: Type.Union([Type.String(), Type.Null()], { description: 'The first 1 KiB of the response body.' }),
})

export const callback = {
  job_id: Type.String(),
  account: Type.String(),
  url: Type.String(),
  state: callbackState,
  attempts: count,
  next_attempt_at: unixTimeOrNull('When the next attempt is due'),
  ended_at: unixTimeOrNull('When it was delivered or failed permanently'),
  last_attempt: orNull(attempt),
}

export const callbackDetails = Type.Object({
  ...callback,
  job_status: Type.String(),
  under_way: Type.Boolean(),
  header_names: Type.Array(Type.String(), {
    description: 'The names of the headers. Their values may be secret and are not shown.',
  }),
  callback_payload: Type.String({ description: 'The payload as JSON text.' }),
  log: Type.Array(attempt),
})

const ADMIN_ERRORS: ErrorResponses = {
  ...ERRORS,
  401: {
    name: 'Unauthorized',
    description: 'The admin token is missing or wrong.',
    headers: { 'www-authenticate': Type.String({ description: '`Bearer`.' }) },
    example: tokenRequired(),
  },
  404: { name: 'NotFound', description: 'The resource in the path does not exist.', example: noSuchJob() },
  429: {
    name: 'TooManyRequests',
    description: 'Too many wrong tokens from this address. See Retry-After.',
    headers: RETRY_AFTER,
    example: tooManyWrongTokens(42),
  },
}

/** Documents these statuses and those that every route of the admin API can return. */
export function adminErrors(...statuses: number[]): Record<number, object> {
  return errorResponses(ADMIN_ERRORS, [401, 429, 500, 503, ...statuses])
}

/** Why jobs wait for a model server. */
export const upstreamTrouble = {
  since: unixTime('Since when'),
  reason: Type.Enum(['unreachable', 'overloaded', 'broken', 'misconfigured', 'failing'], {
    description:
      '`unreachable`: no connection. `overloaded`: 429 or 503. `broken`: dropped connections, 408, 409, 502 or 504. `misconfigured`: 401, 402, 403, 404 or no quota left. `failing`: 500 or call timeouts.',
  }),
  status: orNull(Type.Integer({ description: 'The HTTP status, if there was a response.' })),
  message: Type.String({
    description: 'The error message of the model server, or why the connection failed.',
  }),
}
