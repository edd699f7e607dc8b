/**
 * Errors in OpenAI's shape have headers with which OpenAI's clients decide whether to retry. Without `x-should-retry`, they
 * retry after 408, 409, 429 and every status from 500 on.
 */
import type { FastifyReply } from 'fastify'
import { type ErrorAnswer, type OtherApi, sendErrorOf } from '../http/envelope.ts'
import { HttpError, NotAdmitted } from '../http/errors.ts'
import { FieldProblem } from '../job/field-rules.ts'
import type { FailureCode } from '../job/job.ts'
import type { JobRecord } from '../job/job-record.ts'

interface Details {
  /** `param` names the wrong field as the caller's request does. */
  readonly param?: string
  readonly code?: string
  /** If `shouldRetry` is absent, the client decides by the status. */
  readonly shouldRetry?: boolean
  readonly retryAfterMs?: number
}

export class V1Error extends HttpError {
  readonly about: Details

  constructor(status: number, message: string, about: Details = {}) {
    super(status, message)
    this.about = about
  }
}

/** The field is wrong, or it would change the answer although Parley does not support it. */
export const invalidField = (param: string, rule: string) => new FieldProblem(param, rule)

/** An error shows at most this many characters of a model name, because callers may send millions. */
const LONGEST_MODEL = 200

export function noSuchModel(model: string): V1Error {
  const shown = model.length > LONGEST_MODEL ? `${model.slice(0, LONGEST_MODEL)}…` : model
  return new V1Error(404, `The model ${shown} does not exist, or your tier cannot use it.`, {
    param: 'model',
    code: 'model_not_found',
  })
}

/** The job continues. OpenAI's clients repeat the request at once, which then joins the job. */
export const notFinished = () =>
  new V1Error(408, 'The answer is not ready yet. Send the same request again to keep waiting for it.', {
    code: 'timeout',
    shouldRetry: true,
    retryAfterMs: 0,
  })

/** The job continues, but no slot for waiting or no memory for the answer is free. */
export const cannotWait = () =>
  new V1Error(
    503,
    'The server cannot wait for the answer now. Send the same request again to wait for the same job.',
    { shouldRetry: true, retryAfterMs: 1000 },
  )

export const keyConflict = () =>
  new V1Error(409, 'Idempotency-Key: was already used with a different request.', { shouldRetry: false })

export const jobVanished = () => new V1Error(404, 'The job was deleted.', { shouldRetry: false })

const STATUSES: Readonly<Partial<Record<FailureCode, number>>> = { timeout: 504, cancelled: 409 }

/** The client must not retry, because that would run the job again. */
export function failureOf({ errorJson }: Pick<JobRecord, 'errorJson'>): V1Error {
  const { code, message, upstream_message } = JSON.parse(errorJson ?? '{}')
  const text = upstream_message ? `${message} ${upstream_message}` : String(message)
  return new V1Error(STATUSES[code as FailureCode] ?? 502, text, { code, shouldRetry: false })
}

const TYPES: Readonly<Record<number, string>> = {
  403: 'permission_error',
  408: 'timeout_error',
  409: 'conflict_error',
  429: 'rate_limit_error',
}

function detailsOf(error: HttpError): Details & { readonly status: number } {
  if (error instanceof V1Error) return { status: error.status, ...error.about }
  const { status, retryAfterS, details = '' } = error
  const reason = error instanceof NotAdmitted ? error.reason : null
  switch (reason?.kind) {
    case 'monthly cap':
    case 'quota':
      return { status: 429, code: 'insufficient_quota', shouldRetry: false }
    case 'model not allowed':
      return { status, param: 'model', code: 'model_not_found' }
    case 'invalid':
      return { status, param: reason.field }
  }
  const retry = retryAfterS === undefined ? {} : { shouldRetry: true, retryAfterMs: retryAfterS * 1000 }
  if (status === 401) return { status, code: 'invalid_api_key' }
  if (status === 429) return { status, code: 'rate_limit_exceeded', ...retry }
  const [, param] = /^([A-Za-z_][\w.[\]]*): /.exec(details) ?? []
  return { status, ...retry, ...(status === 400 && param !== undefined && { param }) }
}

function answerOf(error: HttpError): ErrorAnswer {
  const { status, param = null, code = null, shouldRetry, retryAfterMs } = detailsOf(error)
  const type =
    code === 'insufficient_quota'
      ? code
      : (TYPES[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error'))
  const { message: what, details } = error
  const text = details === undefined ? what : param === null ? `${what} ${details}` : details
  const message = text.replace('in the x-api-key header', 'as Authorization: Bearer KEY')
  return {
    status,
    headers: {
      ...(shouldRetry !== undefined && { 'x-should-retry': String(shouldRetry) }),
      ...(retryAfterMs !== undefined && {
        'retry-after-ms': String(retryAfterMs),
        'retry-after': String(Math.ceil(retryAfterMs / 1000)),
      }),
    },
    bodyJson: JSON.stringify({ error: { message, type, param, code } }),
  }
}

export const V1_ERRORS: OtherApi = { prefix: '/v1/', headers: ['x-should-retry', 'retry-after-ms'], answerOf }

/** Use this for errors that the caller did not cause. A thrown error counts as a rejected request and may be delayed. */
export function sendV1Error(reply: FastifyReply, error: HttpError): FastifyReply {
  return sendErrorOf(V1_ERRORS, reply, error)
}
