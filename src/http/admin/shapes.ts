/** The shapes that several routes of the admin API share, for validation and for the OpenAPI document. */
import Type, { type TSchema } from 'typebox'
import { ACCOUNT_NAME } from '../../accounts/issue-key.ts'
import { MODEL_NAME } from '../../job/request.ts'
import { TIER_NAMES } from '../../job/tier.ts'
import { CALLBACK_STATES } from '../../store/callback-store.ts'
import { MOST_SEARCHED } from '../../store/pagination.ts'
import { errors } from '../openapi/schemas.ts'

export const strict = { additionalProperties: false } as const

export const orNull = (schema: TSchema) => Type.Union([schema, Type.Null()])

export const unixTime = (description: string) => Type.Number({ description: `${description} (Unix seconds)` })
export const unixTimeOrNull = (description: string) =>
  Type.Union([Type.Number(), Type.Null()], { description: `${description} (Unix seconds)` })

export const count = Type.Integer({ minimum: 0 })
export const tierName = Type.Enum([...TIER_NAMES])
export const callbackState = Type.Enum([...CALLBACK_STATES])

/** Names as they can be; others, such as one with a NUL, would not even be taken by every database. */
export const accountName = Type.String({ pattern: ACCOUNT_NAME.source, description: 'Of an account.' })
export const modelName = Type.String({ pattern: MODEL_NAME, description: 'A public model name.' })

/** Rows of an answer. */
export const LIMIT = { most: 200, default: 50 } as const

export const limit = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: LIMIT.most,
    default: LIMIT.default,
    description: 'How many at most.',
  }),
)

export const more = Type.Boolean({ description: 'Whether there are more after these.' })

export const next = (parameter: string) =>
  Type.Union([Type.String(), Type.Null()], { description: `What to give as \`${parameter}\` to go on.` })

/** Of a search whose cost is bounded. */
export const paging = {
  more,
  complete: Type.Boolean({
    description: `False where the search stopped after looking at ${MOST_SEARCHED}; go on with \`next\`.`,
  }),
  next: next('before'),
}

export const jobIdParam = Type.Object({ jobId: Type.String({ description: 'The job identifier.' }) })
export const nameParam = Type.Object({ name: Type.String({ description: 'The account.' }) })

const cap = (description: string) =>
  Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Enum(['none', 'tier'])], {
    description: `${description}; \`tier\` where the tier's cap applies.`,
  })

export const caps = {
  max_monthly_jobs: cap('Jobs in a calendar month (UTC)'),
  max_monthly_tokens: cap('Input and output tokens in a calendar month (UTC)'),
}

export const scrubQuery = Type.Object(
  {
    scrub: Type.Optional(
      Type.Enum(['true', 'false'], {
        description:
          'Whether what is deleted is made to leave the disk, too; `true` if absent. On SQLite the file is written anew, and nothing else is written meanwhile.',
      }),
    ),
  },
  strict,
)

export const attempt = Type.Object({
  attempt: count,
  at: unixTime('When it began'),
  ms: Type.Number(),
  status: orNull(Type.Integer()),
  error: orNull(Type.String()),
  answer: Type.Union([Type.String(), Type.Null()], { description: 'The first 1 KiB of the answer.' }),
})

export const callback = {
  job_id: Type.String(),
  account: Type.String(),
  url: Type.String(),
  state: callbackState,
  attempts: count,
  next_attempt_at: unixTimeOrNull('When the next attempt is due'),
  ended_at: unixTimeOrNull('When it was delivered or failed for good'),
  last_attempt: orNull(attempt),
}

export const callbackDetails = Type.Object({
  ...callback,
  job_status: Type.String(),
  under_way: Type.Boolean(),
  header_names: Type.Array(Type.String(), { description: 'Without their values, which may be secret.' }),
  callback_payload: Type.String({ description: 'JSON text.' }),
  log: Type.Array(attempt),
})

/** Documents these statuses, and those that every route of the admin API can give. */
export function adminErrors(...statuses: number[]): Record<number, object> {
  const documented = errors(401, 429, 500, 503, ...statuses)
  const because = {
    401: 'The admin token is missing or wrong.',
    404: 'There is none.',
    409: 'It is not in a state for this; see details.',
    429: 'Too many wrong tokens from this address; see Retry-After.',
    503: 'Temporarily unavailable; see Retry-After.',
  }
  for (const [status, description] of Object.entries(because)) {
    const given = documented[Number(status)]
    if (given) documented[Number(status)] = { ...given, description }
  }
  return documented
}
