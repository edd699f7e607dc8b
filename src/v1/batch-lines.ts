/** Reads the lines of a batch's input file, which are requests in OpenAI's shape, and writes the lines of its result files. */
import { isUtf8 } from 'node:buffer'
import type { LineFormat, LineResult, WantedLine, WrongLine } from '../batches/line-format.ts'
import type { Problem } from '../batches/progress.ts'
import { admissionError } from '../http/errors.ts'
import type { PartLimits } from '../job/create-body.ts'
import { FieldProblem } from '../job/field-rules.ts'
import { type Callback, eventTo } from '../job/job.ts'
import { BATCH_PREFIX } from '../job/job-id.ts'
import { formatParts } from '../job/response-format.ts'
import { isObject } from '../json-object.ts'
import { cutMembers } from '../json-text/cut-members.ts'
import { mayLoseDigits, readJson, withoutExcerpt } from '../json-text/read-json.ts'
import type { AdmissionError } from '../queue/job-creator.ts'
import type { BatchStatus, JobRequest, StoredBatch } from '../store/batch-store.ts'
import type { EndedJob, Store } from '../store/store.ts'
import { answerOf, tokensOf } from './answers.ts'
import { CHAT_FIELD_NAMES, completionJson } from './chat-completions.ts'
import { failureOf, V1_ERRORS } from './errors.ts'
import { renamedField } from './held-creates.ts'
import { elementsOfBody } from './read-body.ts'
import { BEFORE_INSTRUCTIONS, recordOf, responseJson } from './response-object.ts'
import { RESPONSE_FIELD_NAMES } from './responses.ts'

/** The endpoints whose requests a batch may contain, and the name of the translation of their bodies. */
export const ENDPOINTS: Readonly<Record<string, string>> = {
  '/v1/chat/completions': 'chat',
  '/v1/responses': 'response',
}

export interface BatchLinesOptions {
  readonly store: Pick<Store, 'readRequest'>
  readonly limits: PartLimits
  readonly maxDepth: number
  /** Whether jobs with this model use the response cache; the setting `models.*.v1_cache` decides. */
  readonly usesCache: (model: string) => boolean
}

const MAX_ID = 512
const BODY = new Map([['body', 0]])
/** Expiry is not applied, because jobs of a batch do not expire before the batch has read their results. */
const NEVER = { nowMs: 0, retentionMs: 0 }

export class BatchLines implements LineFormat {
  readonly #options: BatchLinesOptions

  constructor(options: BatchLinesOptions) {
    this.#options = options
  }

  read(bytes: Uint8Array, endpoint: string): WantedLine | WrongLine {
    const { maxDepth, limits, usesCache } = this.#options
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    if (!isUtf8(buffer)) return wrong('invalid_json_line', 'The line is not valid UTF-8.')
    const line = buffer.toString('utf8')
    const read = readJson(line, maxDepth)
    if (!read.ok) {
      const why = read.tooDeep ? `The line is ${read.error}.` : withoutExcerpt(read.error)
      return wrong('invalid_json_line', why)
    }
    if (!isObject(read.value)) return wrong('invalid_json_line', 'The line must be a JSON object.')
    const { custom_id: customId, method, url, body } = read.value
    if (!isCustomId(customId)) {
      const rule = `custom_id: must be a string of 1 to ${MAX_ID} characters, none of which is NUL.`
      return wrong('invalid_custom_id', rule, 'custom_id')
    }
    if (method !== 'POST') return wrong('invalid_method', 'method: must be POST.', 'method')
    if (url !== endpoint) {
      return wrong('mismatched_url', `url: must be ${endpoint}, the endpoint of the batch.`, 'url')
    }
    try {
      const text = mayLoseDigits(line) ? (cutMembers(line, BODY)[0] ?? '') : ''
      const [element] = elementsOfBody(ENDPOINTS[endpoint] ?? '', { text, value: body }, limits)
      if (element === undefined) throw new Error('a body without a job')
      return { customId, element: usesCache(element.model) ? element : { ...element, cacheTtlS: 0 } }
    } catch (error) {
      if (!(error instanceof FieldProblem)) throw error
      const [, field] = /^([\w.[\]]+): /.exec(error.message) ?? []
      return wrong('invalid_request', error.message, field === undefined ? 'body' : `body.${field}`)
    }
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

/** Errors name fields as the line does, not as Parley's own API does. */
function errorOf(endpoint: string, error: AdmissionError) {
  if (error.kind !== 'invalid') return admissionError(error)
  const names = ENDPOINTS[endpoint] === 'chat' ? CHAT_FIELD_NAMES : RESPONSE_FIELD_NAMES
  return admissionError({ ...error, field: renamedField(error.field, names) })
}

function wrong(code: string, message: string, param: string | null = null): WrongLine {
  return { code, message, param }
}

/** Rejects texts that the database or the result file would change: NUL and unpaired surrogates. */
function isCustomId(text: unknown): text is string {
  if (typeof text !== 'string' || text.length === 0 || text.length > MAX_ID) return false
  return text.isWellFormed() && !text.includes('\0')
}

/** Assembles the line as text, because the body already is JSON text. */
function answered(customId: string, id: string, status: number, bodyJson: string): string {
  return `{"id":"batch_req_${id}","custom_id":${JSON.stringify(customId)},"response":{"status_code":${status},"request_id":"${id}","body":${bodyJson}},"error":null}`
}
