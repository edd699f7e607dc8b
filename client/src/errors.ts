/**
 * All errors that the client throws: one class per kind, all derived from `ParleyError`. The exception is an aborted call,
 * which throws its signal's reason.
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
  /** The HTTP status, if there was a response. */
  readonly status: number | undefined
  /** The field or rule and how to correct it, if the server names them. */
  readonly details: string | undefined
  /** The `x-request-id` of the response, which is also in the server's log. */
  readonly requestId: string | undefined
  /** The server's Retry-After, in seconds. */
  readonly retryAfter: number | undefined
  /** The key of a create whose outcome may be unknown. Repeating it with this key neither creates nor pays for a job twice. */
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

/** The client is not configured correctly: no API key, or a base URL or secret that is not valid. */
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

/** 404: the job does not exist, or has expired. */
export class NotFoundError extends ParleyError {
  override readonly name = 'NotFoundError'
}

/** 409: the state of the job does not allow it. For example, a finished job cannot be cancelled. */
export class ConflictError extends ParleyError {
  override readonly name = 'ConflictError'
}

/** 429: more reads, creates, cancels or deletes in this minute than the server allows, or too many lists at the same time. */
export class RateLimitError extends ParleyError {
  override readonly name = 'RateLimitError'
}

/** 503: the server is temporarily unavailable. */
export class ServiceUnavailableError extends ParleyError {
  override readonly name = 'ServiceUnavailableError'
}

/** 500 and other 5xx statuses: an error in the server, or in a proxy in front of it. */
export class ServerError extends ParleyError {
  override readonly name = 'ServerError'
}

/** The server was not reached, or the connection broke before the whole response was read. */
export class ConnectionError extends ParleyError {
  override readonly name = 'ConnectionError'
}

/** A request or a wait took longer than its timeout. If `jobId` is set, that job continues on the server. */
export class TimeoutError extends ParleyError {
  override readonly name = 'TimeoutError'
  readonly jobId: string | undefined

  constructor(message: string, fields: ErrorFields & { readonly jobId?: string } = {}) {
    super(message, fields)
    this.jobId = fields.jobId
  }
}

/** The response is not from a Parley server: the base URL is wrong, or a proxy responded. */
export class UnexpectedResponseError extends ParleyError {
  override readonly name = 'UnexpectedResponseError'
}

/** The schema of the answer cannot be sent, because its library cannot generate a JSON Schema for it. */
export class SchemaError extends ParleyError {
  override readonly name = 'SchemaError'
}

/** The job failed. */
export class JobFailedError extends ParleyError {
  override readonly name = 'JobFailedError'
  readonly job: FailedJob
  readonly jobId: string
  /** Such as `timeout` or `model_error`; see `FailureCode`. */
  readonly code: JobError['code']

  constructor(job: FailedJob) {
    super(job.error.message)
    this.job = job
    this.jobId = job.job_id
    this.code = job.error.code
  }
}

/** The job is completed, but its answer is not valid for the library's schema, because of a rule that JSON Schema cannot express. */
export class ResponseContentError extends ParleyError {
  override readonly name = 'ResponseContentError'
  readonly jobId: string
  readonly issues: readonly StandardSchemaV1.Issue[]
  /** The unchanged answer. */
  readonly content: unknown

  constructor(jobId: string, issues: readonly StandardSchemaV1.Issue[], content: unknown) {
    super(`the answer of job ${jobId} does not match the schema: ${issues.map(issueText).join('; ')}`)
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
 * `createBatch` failed or was aborted after some jobs had been created: `jobIds` has their IDs, in order, and `cause` is the
 * reason. To continue, repeat the call with the same jobs and the `idempotencyKey` of this error.
 */
export class BatchError extends ParleyError {
  override readonly name = 'BatchError'
  readonly jobIds: readonly string[]

  constructor(jobIds: readonly string[], idempotencyKey: string | undefined, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause)
    const fields = cause instanceof ParleyError ? cause : {}
    super(`createBatch failed after ${jobIds.length} jobs had been created: ${why}`, {
      ...fields,
      idempotencyKey,
      cause,
    })
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

/** The callback cannot be trusted. Respond with 401. */
export class WebhookVerificationError extends ParleyError {
  override readonly name = 'WebhookVerificationError'
  readonly reason: VerificationFailure

  constructor(reason: VerificationFailure, message: string, cause?: unknown) {
    super(message, { cause })
    this.reason = reason
  }
}
