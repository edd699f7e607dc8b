/**
 * Defines all errors that the client throws, each with a class derived from `ParleyError`. Only an aborted call throws
 * something else: the reason of its signal.
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
  /** Contains the HTTP status, or undefined if there was no response. */
  readonly status: number | undefined
  /** Describes the field or rule that was violated and how to correct it, if the server reports it. */
  readonly details: string | undefined
  /** Contains the `x-request-id` of the response, which is also in the server's log. */
  readonly requestId: string | undefined
  /** Contains the server's Retry-After, in seconds. */
  readonly retryAfter: number | undefined
  /**
   * Contains the Idempotency-Key of a failed call that may have created jobs. If you repeat the call with this key, no job is
   * created or paid for twice.
   */
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

/** The configuration of the client is wrong: the API key is missing, or the base URL or a secret is not valid. */
export class ConfigurationError extends ParleyError {
  override readonly name = 'ConfigurationError'
}

/** 400, 413 and 415: the request violates a rule, which `details` describes. */
export class InvalidRequestError extends ParleyError {
  override readonly name = 'InvalidRequestError'
}

/** 401: the key is missing, unknown, expired or revoked. */
export class AuthenticationError extends ParleyError {
  override readonly name = 'AuthenticationError'
}

/** 403: the tier, a cap, a quota or a suspension does not allow the request. */
export class PermissionError extends ParleyError {
  override readonly name = 'PermissionError'
}

/** 404: the job does not exist, or has expired. */
export class NotFoundError extends ParleyError {
  override readonly name = 'NotFoundError'
}

/** 409: the job is in the wrong state. For example, a finished job cannot be cancelled. */
export class ConflictError extends ParleyError {
  override readonly name = 'ConflictError'
}

/** 429: there were too many requests of one kind in this minute, or too many lists at the same time. */
export class RateLimitError extends ParleyError {
  override readonly name = 'RateLimitError'
}

/** 503: the server is temporarily unavailable. */
export class ServiceUnavailableError extends ParleyError {
  override readonly name = 'ServiceUnavailableError'
}

/** 500 and other 5xx statuses: the server failed, or a proxy in front of it. */
export class ServerError extends ParleyError {
  override readonly name = 'ServerError'
}

/** The server was not reached, or the connection broke before the whole response had arrived. */
export class ConnectionError extends ParleyError {
  override readonly name = 'ConnectionError'
}

/** A request or a wait took longer than its timeout. If `jobId` is set, the job continues on the server. */
export class TimeoutError extends ParleyError {
  override readonly name = 'TimeoutError'
  readonly jobId: string | undefined

  constructor(message: string, fields: ErrorFields & { readonly jobId?: string } = {}) {
    super(message, fields)
    this.jobId = fields.jobId
  }
}

/** The response is not from a Parley server. The base URL is wrong, or a proxy responded. */
export class UnexpectedResponseError extends ParleyError {
  override readonly name = 'UnexpectedResponseError'
}

/** The schema of the answer cannot be sent, because its library cannot generate a JSON Schema from it. */
export class SchemaError extends ParleyError {
  override readonly name = 'SchemaError'
}

export class JobFailedError extends ParleyError {
  override readonly name = 'JobFailedError'
  readonly job: FailedJob
  readonly jobId: string
  /** Shows why the job failed, for example `timeout` or `model_error`. `FailureCode` lists all codes. */
  readonly code: JobError['code']

  constructor(job: FailedJob) {
    super(job.error.message)
    this.job = job
    this.jobId = job.job_id
    this.code = job.error.code
  }
}

/** The job has completed, but the library rejects the answer, for example because of a rule that JSON Schema cannot express. */
export class ResponseContentError extends ParleyError {
  override readonly name = 'ResponseContentError'
  readonly jobId: string
  readonly issues: readonly StandardSchemaV1.Issue[]
  /** Contains the answer as the model wrote it. */
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
 * `createBatch` failed or was aborted after some jobs had been created. `jobIds` has their IDs in order, and `cause` is the
 * reason. To continue, call `createBatch` again with the same jobs and the `idempotencyKey` of this error.
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
