/**
 * Every error that the client throws, one class for each kind, all under `ParleyError`. An aborted call is the exception:
 * it throws its signal's own reason.
 */
import type { FailedJob, JobError } from './job.ts'
import type { StandardSchemaV1 } from './standard-schema.ts'

export interface ErrorFields {
  readonly status?: number | undefined
  readonly details?: string | undefined
  readonly requestId?: string | undefined
  readonly retryAfter?: number | undefined
  readonly idempotencyKey?: string | undefined
  readonly cause?: unknown
}

export class ParleyError extends Error {
  override readonly name: string = 'ParleyError'
  /** The HTTP status, where there was an answer. */
  readonly status: number | undefined
  /** Which field or rule, and the remedy, where the server says so. */
  readonly details: string | undefined
  /** `x-request-id` of the answer: the server's log has it too. */
  readonly requestId: string | undefined
  /** Seconds that the server asked to wait before another try. */
  readonly retryAfter: number | undefined
  /** Of a create whose outcome may be unknown: repeated with this key, it makes and pays nothing twice. */
  readonly idempotencyKey: string | undefined

  constructor(message: string, fields: ErrorFields = {}) {
    const { status, details, requestId, retryAfter, idempotencyKey, cause } = fields
    super(message, cause === undefined ? undefined : { cause })
    this.status = status
    this.details = details
    this.requestId = requestId
    this.retryAfter = retryAfter
    this.idempotencyKey = idempotencyKey
  }
}

/** The client was set up wrongly: no key, a base URL that is none, a secret that is none. */
export class ConfigurationError extends ParleyError {
  override readonly name = 'ConfigurationError'
}

/** 400, 413 and 415: the request breaks a rule; `details` names it. */
export class InvalidRequestError extends ParleyError {
  override readonly name = 'InvalidRequestError'
}

/** 401: the key is missing, unknown, expired or revoked. */
export class AuthenticationError extends ParleyError {
  override readonly name = 'AuthenticationError'
}

/** 403: the tier does not allow it. */
export class PermissionError extends ParleyError {
  override readonly name = 'PermissionError'
}

/** 404: there is no such job, or none any more. */
export class NotFoundError extends ParleyError {
  override readonly name = 'NotFoundError'
}

/** 429: more reads in this minute than the tier allows. */
export class RateLimitError extends ParleyError {
  override readonly name = 'RateLimitError'
}

/** 503: the server cannot take it now. */
export class ServiceUnavailableError extends ParleyError {
  override readonly name = 'ServiceUnavailableError'
}

/** 500 and other statuses of its kind: something is wrong at the server, or between here and there. */
export class ServerError extends ParleyError {
  override readonly name = 'ServerError'
}

/** No answer: the server was not reached, or the connection broke before the answer was read. */
export class ConnectionError extends ParleyError {
  override readonly name = 'ConnectionError'
}

/** A request or a wait took longer than its timeout; `jobId` where the job is known: it goes on. */
export class TimeoutError extends ParleyError {
  override readonly name = 'TimeoutError'
  readonly jobId: string | undefined

  constructor(message: string, fields: ErrorFields & { readonly jobId?: string } = {}) {
    super(message, fields)
    this.jobId = fields.jobId
  }
}

/** What answered does not speak as Parley does: a wrong base URL, or something in between. */
export class UnexpectedResponseError extends ParleyError {
  override readonly name = 'UnexpectedResponseError'
}

/** The schema given for the answer cannot be sent: its library makes no JSON Schema of it. */
export class SchemaError extends ParleyError {
  override readonly name = 'SchemaError'
}

/** The job ended as failed. */
export class JobFailedError extends ParleyError {
  override readonly name = 'JobFailedError'
  readonly job: FailedJob
  readonly jobId: string
  /** `timeout`, `content_policy_violation`, `model_error`, `validation_error`, `cancelled` or `internal_error`. */
  readonly code: JobError['code']

  constructor(job: FailedJob) {
    super(job.error.message)
    this.job = job
    this.jobId = job.job_id
    this.code = job.error.code
  }
}

/** The job is completed, but the library's schema does not take its answer: a rule that no JSON Schema can say. */
export class ResponseContentError extends ParleyError {
  override readonly name = 'ResponseContentError'
  readonly jobId: string
  readonly issues: readonly StandardSchemaV1.Issue[]
  /** The answer as it came. */
  readonly content: unknown

  constructor(jobId: string, issues: readonly StandardSchemaV1.Issue[], content: unknown) {
    super(`the answer of job ${jobId} does not fit the schema: ${issues.map(issueText).join('; ')}`)
    this.jobId = jobId
    this.issues = issues
    this.content = content
  }
}

function issueText({ message, path = [] }: StandardSchemaV1.Issue): string {
  const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
  return keys.length === 0 ? message : `${keys.join('.')}: ${message}`
}

/**
 * `createBatch` broke off after its first jobs were created: `jobIds` has theirs, in order, and `cause` says what happened
 * then, an abort included. With the same jobs and the `idempotencyKey` of this error it goes on where it was.
 */
export class BatchError extends ParleyError {
  override readonly name = 'BatchError'
  readonly jobIds: readonly string[]

  constructor(jobIds: readonly string[], idempotencyKey: string | undefined, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause)
    const fields = cause instanceof ParleyError ? cause : {}
    super(`${jobIds.length} jobs were created, then: ${why}`, { ...fields, idempotencyKey, cause })
    this.jobIds = jobIds
  }
}

export type VerificationFailure =
  | 'missing header'
  | 'bad timestamp'
  | 'too old'
  | 'too new'
  | 'wrong signature'
  | 'bad body'

/** A callback that is not to be trusted; answer it with 401. */
export class WebhookVerificationError extends ParleyError {
  override readonly name = 'WebhookVerificationError'
  readonly reason: VerificationFailure

  constructor(reason: VerificationFailure, message: string, cause?: unknown) {
    super(message, { cause })
    this.reason = reason
  }
}
