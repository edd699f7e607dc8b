/** Translates the lines of a batch's files, which have OpenAI's shapes: requests to jobs, and outcomes to result lines. */
import type { LineFormat, LineResult } from '../batches/line-format.ts'
import type { Problem, WrongLine } from '../batches/progress.ts'
import type { WantedLine } from '../batches/wanted-line.ts'
import { admissionError } from '../http/errors.ts'
import type { PartLimits } from '../job/create-body.ts'
import { type Callback, eventTo } from '../job/job.ts'
import { BATCH_PREFIX } from '../job/job-id.ts'
import { formatParts } from '../job/response-format.ts'
import type { AdmissionError } from '../queue/job-creator.ts'
import type { BatchStatus, JobRequest, StoredBatch } from '../store/batch-store.ts'
import type { EndedJob, Store } from '../store/store.ts'
import { answerOf, BEFORE_INSTRUCTIONS, completionJson, recordOf, responseJson, tokensOf } from './answers.ts'
import { failureOf, V1_ERRORS } from './errors.ts'
import { CHAT_FIELD_NAMES, RESPONSE_FIELD_NAMES, renamedField } from './held-creates.ts'
import { type BatchLineText, ENDPOINTS, readBatchLine } from './read-body.ts'

export interface BatchLinesOptions {
  readonly store: Pick<Store, 'readRequest'>
  readonly limits: PartLimits
  readonly maxDepth: number
  /** Returns whether jobs with this model use the response cache; the setting `models.*.v1_cache`. */
  readonly usesCache: (model: string) => boolean
  /** Reads a line on a thread. The buffer of the line is empty afterwards, because the thread takes its bytes. */
  readonly readLarge: (line: BatchLineText, account: string) => Promise<WantedLine | WrongLine>
}

/** The event loop reads lines up to this length. The slowest of them takes a few milliseconds. */
const LARGE_BYTES = 64 * 1024
/** With this expiry, no job counts as expired: jobs of a batch are stored until the batch has read their results. */
const NEVER = { nowMs: 0, retentionMs: 0 }

export class BatchLines implements LineFormat {
  readonly #options: BatchLinesOptions

  constructor(options: BatchLinesOptions) {
    this.#options = options
  }

  async read(bytes: Uint8Array, { account, endpoint }: StoredBatch): Promise<WantedLine | WrongLine> {
    const { maxDepth, limits, usesCache, readLarge } = this.#options
    const line = { bytes, endpoint, maxDepth, limits }
    const read = bytes.length > LARGE_BYTES ? await readLarge(line, account) : readBatchLine(line)
    if (!('element' in read) || usesCache(read.element.model)) return read
    return { ...read, element: { ...read.element, cacheTtlS: 0 } }
  }

  async resultOf(
    { account, endpoint }: StoredBatch,
    customId: string,
    job: EndedJob,
    { model, responseFormatJson }: JobRequest,
  ): Promise<LineResult> {
    const { input, cached, output, cost } = tokensOf(job)
    const tokens = {
      ...{ inputTokens: input, cachedTokens: cached, outputTokens: output },
      ...(cost !== undefined && { cost }),
    }
    const answer = answerOf(job, formatParts(responseFormatJson).kind !== 'text')
    if (answer.kind === 'failed') {
      const { status, bodyJson } = V1_ERRORS.answerOf(failureOf(job))
      return { failed: true, json: answered(customId, job.id, status, bodyJson), ...tokens }
    }
    if (ENDPOINTS[endpoint] === 'chat') {
      const json = answered(customId, job.id, 200, completionJson(job, model, answer))
      return { failed: false, json, ...tokens }
    }
    const instructions = recordOf(responseFormatJson)?.instructions ?? 0
    const messageChars = BEFORE_INSTRUCTIONS.length + instructions
    const messages =
      instructions > 0
        ? await this.#options.store.readRequest({ account, jobId: job.id, expiry: NEVER, messageChars })
        : null
    const instructionsJson = messages?.messagesStart.slice(BEFORE_INSTRUCTIONS.length) ?? 'null'
    const bodyJson = responseJson(job, { model, responseFormatJson, instructionsJson })
    return { failed: false, json: answered(customId, job.id, 200, bodyJson), ...tokens }
  }

  unfinished(customId: string, id: string, { code, message }: Problem): string {
    const line = { id: `batch_req_${id}`, custom_id: customId, response: null, error: { code, message } }
    return JSON.stringify(line)
  }

  refused(endpoint: string, customId: string, id: string, error: AdmissionError): string {
    const { status, bodyJson } = V1_ERRORS.answerOf(errorOf(endpoint, error))
    return answered(customId, id, status, bodyJson)
  }

  problemOf(endpoint: string, error: AdmissionError): WrongLine {
    const { bodyJson } = V1_ERRORS.answerOf(errorOf(endpoint, error))
    const { code, message, param } = JSON.parse(bodyJson).error
    return { code: code ?? 'invalid_request', message, param: param === null ? null : `body.${param}` }
  }

  eventTo(url: string, status: BatchStatus): Callback {
    return eventTo(url, { of: 'batch', idPrefix: BATCH_PREFIX, ending: status })
  }
}

/** An error names fields as the line does, which differs from Parley's own API. */
function errorOf(endpoint: string, error: AdmissionError) {
  if (error.kind !== 'invalid') return admissionError(error)
  const names = ENDPOINTS[endpoint] === 'chat' ? CHAT_FIELD_NAMES : RESPONSE_FIELD_NAMES
  return admissionError({ ...error, field: renamedField(error.field, names) })
}

/** The body is already JSON text, so the line is joined from texts. */
function answered(customId: string, id: string, status: number, bodyJson: string): string {
  return `{"id":"batch_req_${id}","custom_id":${JSON.stringify(customId)},"response":{"status_code":${status},"request_id":"${id}","body":${bodyJson}},"error":null}`
}
