/**
 * Defines the errors of the API (SPEC §2.6 and §7), except those of an overloaded server (`load-shedding/unavailable.ts`) and of
 * requests that cannot be read (`unrouted-requests.ts`).
 * `server.ts` converts other exceptions to them.
 */

import { amountText } from '../job/amount.ts'
import type { CapReached } from '../queue/job-and-token-caps.ts'
import type { AdmissionError } from '../queue/job-creator.ts'
import type { QuotaReached } from '../queue/quotas.ts'

export class HttpError extends Error {
  readonly status: number
  readonly details: string | undefined
  readonly retryAfterS: number | undefined

  constructor(status: number, message: string, details?: string, retryAfterS?: number) {
    super(message)
    this.status = status
    this.details = details
    this.retryAfterS = retryAfterS
  }
}

/** Keeps the reason, from which `/v1` makes an error in OpenAI's shape. */
export class NotAdmitted extends HttpError {
  readonly reason: AdmissionError

  constructor({ status, message, details, retryAfterS }: HttpError, reason: AdmissionError) {
    super(status, message, details, retryAfterS)
    this.reason = reason
  }
}

const INVALID = 'Invalid parameters.'

export type KeyProblem = 'missing' | 'unknown' | 'revoked' | 'expired'

const KEY_PROBLEMS: Readonly<Record<KeyProblem, string>> = {
  missing: 'The request has no API key.',
  unknown: 'The API key does not exist.',
  revoked: 'The API key has been revoked.',
  expired: 'The API key has expired.',
}

/** SPEC §5 determines the message. The last sentence of the details names the problem. */
export const keyRequired = (problem: KeyProblem) =>
  new HttpError(
    401,
    'API key is required.',
    `Supply a valid API key in the x-api-key header. ${KEY_PROBLEMS[problem]}`,
  )

/** An existing key works from any address, so only unknown keys get this error. */
export const tooManyUnknownKeys = (limit: number, retryAfterS: number) =>
  new HttpError(
    429,
    'Too many unknown API keys.',
    `An address may send at most ${limit} unknown keys per minute (limits.unknown_keys_per_minute). Use a valid API key in the x-api-key header, or try again in ${retryAfterS} s.`,
    retryAfterS,
  )

export const tokenRequired = () =>
  new HttpError(401, 'Admin token is required.', 'Supply the admin token as Authorization: Bearer TOKEN.')

export const readOnlyToken = () =>
  new HttpError(
    403,
    'This admin token is read-only.',
    'It cannot change anything, and sees no contents of jobs, keys or secrets.',
  )

export const noSuchToken = () =>
  new HttpError(404, 'Token not found.', 'Pass the token ID that the list of tokens shows, not the token.')

export const tokenNameTaken = (name: string) =>
  new HttpError(
    409,
    'Another token has this name.',
    `Revoke the token ${name} first, or choose another name.`,
  )

export const tooManyWrongTokens = (retryAfterS: number) =>
  new HttpError(
    429,
    'Too many wrong admin tokens.',
    `Only the right token is accepted from this address for ${retryAfterS} s.`,
    retryAfterS,
  )

export const noSuchCallback = () =>
  new HttpError(
    404,
    'Callback not found.',
    'The job does not exist, has expired, has not finished yet, or was created without a callback.',
  )

/** @param why a sentence */
export const notRerun = (why: string) => new HttpError(409, 'The job was not rerun.', why)

export const callbackInProgress = () =>
  new HttpError(
    409,
    'The callback is being sent.',
    'Wait until this attempt has finished, then replay the callback.',
  )

export const noSuchAccount = () =>
  new HttpError(404, 'Account not found.', 'The account does not exist. To create it, create a key for it.')

export const noSuchKey = () =>
  new HttpError(404, 'Key not found.', 'Pass the key ID that the list of keys shows, not the key.')

export const keyNotActive = () =>
  new HttpError(409, 'The key is not active.', 'It was revoked or has expired. Create a new key instead.')

export const otherTier = (account: string, tier: string) =>
  new HttpError(
    409,
    'The account has a different tier.',
    `tier: account ${account} has ${tier}. Use that tier, or change the tier of the account first.`,
  )

/** Unknown, expired and malformed IDs and those of other accounts get the same error, which hides which IDs exist. */
export const noSuchJob = () =>
  new HttpError(404, 'Job not found.', 'The job does not exist or has expired. Check the job ID.')

export const noSuchBatch = () =>
  new HttpError(404, 'Batch not found.', 'The batch does not exist or has expired. Check the batch ID.')

export const noSuchBatchFile = () =>
  new HttpError(
    404,
    'File not found.',
    'The batch has not ended, has no such lines, or its file was deleted.',
  )

export const batchEnded = () => new HttpError(409, 'The batch has already ended.', 'Nothing was changed.')

export const jobEnded = () =>
  new HttpError(
    409,
    'The job has already finished.',
    'It completed or failed before it could be cancelled. Nothing was changed.',
  )

export const jobNotEnded = () =>
  new HttpError(409, 'The job has not finished.', 'Only a finished job can be deleted. Cancel the job first.')

export const callbackOwed = () =>
  new HttpError(
    409,
    'The callback of the job has not been delivered yet.',
    'Wait until the callback is delivered or has failed permanently, or pass drop_callback=true to delete the job without sending it.',
  )

export const accountStillUsed = (jobs: number) =>
  new HttpError(
    409,
    'The account is still in use.',
    `New jobs arrived during the deletion, so the account was suspended but not deleted; ${jobs} of its jobs were deleted. Revoke its keys and try again.`,
  )

/** Clients would retry after 503, and get 404 because the data is already deleted. */
export const notScrubbed = (why: string) =>
  new HttpError(
    409,
    'Deleted, but not scrubbed from the disk.',
    `${why}. Parley can no longer read the data. To remove it from the disk as well, run \`parley scrub\` later.`,
  )

export const noSuchRoute = (method: string, path: string) =>
  new HttpError(404, 'Not found.', `There is no ${method} ${path}; see /docs for the routes.`)

export const methodNotAllowed = (method: string, path: string, allow: string) =>
  new HttpError(405, 'Method not allowed.', `${path} does not support ${method}; it supports ${allow}.`)

export const invalid = (details: string) => new HttpError(400, INVALID, details)

export const notJson = (details: string) => new HttpError(400, 'The body is not valid JSON.', details)

export const tooLarge = (limitBytes: number) =>
  new HttpError(413, 'The body is too large.', `This route accepts at most ${limitBytes} bytes.`)

export const notJsonType = () =>
  new HttpError(415, 'Unsupported media type.', 'Send the body with Content-Type: application/json.')

export const notDecoded = () =>
  new HttpError(415, 'Unsupported media type.', 'Send the body uncompressed, without Content-Encoding.')

export const notUtf8 = () =>
  new HttpError(
    415,
    'Unsupported media type.',
    'Send the body in UTF-8. Content-Type must not declare another charset.',
  )

export const batchTooLong = (tier: string, limit: number, jobs: number) =>
  new HttpError(
    403,
    `Maximum jobs per batch request exceeded for ${TIER_WORDS[tier] ?? tier}: at most ${limit}, and this batch has ${jobs}.`,
  )

const TIER_WORDS: Readonly<Record<string, string>> = {
  user_free: 'free user (user_free)',
  user_go: 'go user (user_go)',
  user_pro: 'pro user (user_pro)',
  user_max: 'max user (user_max)',
}

const accountSuspended = (account: string) =>
  new HttpError(
    403,
    `Account ${account} is suspended: it can read its jobs, but cannot create new ones.`,
    'Ask the operators of the service to resume the account.',
  )

export const tooManyReads = (limit: number, retryAfterS: number) =>
  new HttpError(
    429,
    'Rate limit exceeded.',
    `This key may make at most ${limit} reads per minute. Try again in ${retryAfterS} s.`,
    retryAfterS,
  )

/** @param setting the name of the setting, such as `limits.cancels_per_minute` */
export const tooManyActions = (
  what: 'cancel' | 'delete',
  limit: number,
  setting: string,
  retryAfterS: number,
) =>
  new HttpError(
    429,
    'Rate limit exceeded.',
    `This key may ${what} at most ${limit} jobs per minute (${setting}). Try again in ${retryAfterS} s.`,
    retryAfterS,
  )

export const tooManyLists = (limit: number) =>
  new HttpError(
    429,
    'Too many concurrent list requests.',
    `An account may have at most ${limit} list requests in progress. Try again when one of them has finished.`,
    1,
  )

export const idempotencyKeyReused = () =>
  invalid('Idempotency-Key: was already used with a different request; use a new key for each new request.')

export const bodyTakesTooMuchMemory = () =>
  new HttpError(
    413,
    'The body is too large.',
    'Parsing the body needs more memory than this server allows for one body (cpu.thread_heap_mb). Send a body with fewer values.',
  )

/** The client has disconnected, so nobody reads this error. */
export const clientGone = () =>
  new HttpError(400, 'The connection was closed before the request was accepted.')

export const internalError = () => new HttpError(500, 'Internal server error.')

/** During an upgrade, a node of an earlier version would ignore the field and run the job. */
const unknownToANode = (field: string) =>
  new HttpError(
    503,
    'A node of an earlier version is still running.',
    `${field}: that node would ignore it. Nothing was created. Try again when all nodes have been upgraded.`,
    5,
  )

export function admissionError(error: AdmissionError): NotAdmitted {
  return new NotAdmitted(errorOfAdmission(error), error)
}

function errorOfAdmission(error: AdmissionError): HttpError {
  switch (error.kind) {
    case 'suspended':
      return accountSuspended(error.account)
    case 'invalid': {
      const { element, field, rule } = error
      return invalid(`${element === null ? '' : `jobs[${element}].`}${field}: ${rule}`)
    }
    case 'model not allowed':
      return new HttpError(
        403,
        `Insufficient permissions: tier ${error.tier} cannot use model ${error.model}.`,
      )
    case 'monthly cap':
      return capReached(error)
    case 'quota':
      return quotaReached(error)
    case 'create rate': {
      const retryAfterS = Math.ceil(error.leftMs / 1000)
      return new HttpError(
        429,
        'Rate limit exceeded.',
        `This account may create at most ${error.limit} jobs per minute (tiers.*.creates_per_minute). Try again in ${retryAfterS} s.`,
        retryAfterS,
      )
    }
    case 'too many tokens': {
      const { tier, limit, count } = error
      const has = count.certainty === 'exact' ? `${count.tokens}` : `${count.certainty} ${count.tokens}`
      return new HttpError(
        403,
        `Input too large: tier ${tier} allows ${limit} input tokens, but this job has ${has}.`,
      )
    }
    case 'too many output tokens':
      return new HttpError(
        403,
        `Output too large: tier ${error.tier} allows ${error.limit} tokens of an answer.`,
        `options.max_tokens: must be at most ${error.limit}.`,
      )
    case 'priority not allowed': {
      const { name, priorities } = error.tier
      return new HttpError(
        403,
        `Priority not allowed: jobs of tier ${name} may not have the priority ${error.priority}.`,
        `priority: must be ${[...priorities].join(' or ') || 'absent'}.`,
      )
    }
    case 'unknown to a node':
      return unknownToANode(error.field)
  }
}

function capReached({ unit, cap, used, added = 0, resetsAtMs }: CapReached): HttpError {
  const resets = new Date(resetsAtMs).toISOString().replace('.000Z', 'Z')
  if (unit === 'cost') {
    const [limit, known, more] = [cap.limit, used, added].map(amountText)
    return new HttpError(
      403,
      `Monthly cap reached: ${cap.of} allows a cost of ${limit} per month, ${known} are used, and this request may cost ${more}. The cap resets at ${resets}.`,
      'Queued and running jobs count with what they may cost. options.max_tokens limits that. A batch is rejected as a whole.',
    )
  }
  return new HttpError(
    403,
    `Monthly cap reached: ${cap.of} allows ${cap.limit} ${unit} per month, and ${used} are used. The cap resets at ${resets}.`,
    unit === 'jobs' ? 'Queued and running jobs count. A batch is rejected as a whole.' : undefined,
  )
}

const QUOTA_REMEDIES: Readonly<Record<QuotaReached['unit'], string>> = {
  'open jobs': 'Wait until some of them have finished. A batch is rejected as a whole.',
  'stored bytes':
    'The conversation, schema, callback payload and answer of a job count until the job expires or is deleted. A batch is rejected as a whole.',
}

function quotaReached({ account, unit, limit, used, added }: QuotaReached): HttpError {
  return new HttpError(
    403,
    `Quota reached: ${limit.of} allows ${limit.limit} ${unit}, account ${account} has ${used}, and this request would add ${added}.`,
    QUOTA_REMEDIES[unit],
  )
}
