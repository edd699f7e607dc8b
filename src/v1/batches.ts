/** Serves `/v1/batches`. Batches that do not exist and batches of other accounts get the same error. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type AboutBatch, aboutOf, isLarge, progressOf } from '../batches/progress.ts'
import type { Clock } from '../clock.ts'
import type { Files } from '../files/files.ts'
import { sendJson } from '../http/envelope.ts'
import { admissionError } from '../http/errors.ts'
import { BATCH_PREFIX as PREFIX, readBatchId } from '../job/job-id.ts'
import type { StoredBatch } from '../store/batch-store.ts'
import type { Store } from '../store/store.ts'
import { invalidField, V1Error } from './errors.ts'
import { type FieldPolicy, type Fields, supportedFields } from './fields.ts'
import { fileIdOf, fileName } from './files.ts'
import { isRetry } from './held-creates.ts'
import { BATCH_SCHEMAS } from './job-openapi.ts'
import { UNCHECKED } from './openapi.ts'
import { ENDPOINTS } from './read-body.ts'
import { metadataOf } from './response-fields.ts'

export interface BatchRoutes {
  readonly store: Pick<Store, 'createBatch' | 'findBatch' | 'listBatches' | 'cancelBatch' | 'isKnownToAll'>
  readonly files: Files
  readonly clock: Clock
  readonly makeBatchId: () => string
  /** Wakes this node, so that it soon continues the batch that was created or cancelled. */
  readonly onBatchChanged: () => void
}

const WINDOW = '24h'
const WINDOW_MS = 86_400_000
/** Limits the unfinished batches of an account. */
export const MAX_OPEN_BATCHES = 100
const MAX_LISTED = 100
/** A retry gets an equal batch that is at most this old. OpenAI's clients try three times, for ten minutes each. */
const RETRIED_MS = 1_800_000
const BODY: FieldPolicy = {
  supported: ['input_file_id', 'endpoint', 'completion_window', 'metadata', 'output_expires_after'],
  ignored: [],
  neutral: {},
}
const EXPIRES_AFTER: FieldPolicy = { supported: ['anchor', 'seconds'], ignored: [], neutral: {} }
interface OfBatch {
  readonly Params: { readonly batch: string }
}

export function batchesRoutes(app: FastifyInstance, options: BatchRoutes): void {
  const { store, files, clock, makeBatchId, onBatchChanged } = options
  const read = { bearer: true, limitReads: true } as const

  app.post(
    '/v1/batches',
    { config: { bearer: true }, ...UNCHECKED, schema: BATCH_SCHEMAS.create },
    async (request, reply) => {
      const { account, suspended, webhookUrl } = request.caller
      if (suspended) throw admissionError({ kind: 'suspended', account })
      const wanted = wantedBatch(supportedFields(request.body, BODY))
      if (!store.isKnownToAll('batches'))
        throw admissionError({ kind: 'unknown to a node', field: 'batches' })
      const file = await files.find(account, wanted.inputFileId)
      if (file?.purpose !== 'batch') {
        throw invalidField('input_file_id', 'must be the id of a file with the purpose batch')
      }
      const createdAtMs = clock.nowMs()
      const about: AboutBatch = { ...wanted.about, inputBytes: file.bytes, webhookUrl }
      const batch = {
        ...{ id: makeBatchId(), account, inputFileId: file.id, endpoint: wanted.endpoint, createdAtMs },
        ...{ aboutJson: JSON.stringify(about), deadlineMs: createdAtMs + WINDOW_MS },
      }
      const retriedSinceMs = isRetry(request.headers) ? createdAtMs - RETRIED_MS : null
      const id = await store.createBatch(batch, MAX_OPEN_BATCHES, retriedSinceMs)
      if (id === null) throw tooManyBatches()
      const created = await found(account, id)
      onBatchChanged()
      return send(reply, viewOf(created))
    },
  )

  app.get(
    '/v1/batches',
    { config: read, ...UNCHECKED, schema: BATCH_SCHEMAS.list },
    async (request, reply) => {
      const { limit, ...search } = searchOf(request.query as Record<string, unknown>)
      const { account } = request.caller
      const rows = await store.listBatches({ ...search, account, limit: limit + 1 })
      const batches = rows.slice(0, limit)
      const data: string[] = []
      for (const batch of batches) {
        data.push(JSON.stringify(viewOf(batch)))
        if (isLarge(batch)) await nextTurn()
      }
      const [first, last] = [batches.at(0), batches.at(-1)].map((one) => one && PREFIX + one.id)
      const page = { first_id: first ?? null, last_id: last ?? null, has_more: rows.length > limit }
      const rest = JSON.stringify({ object: 'list', ...page }).slice(1)
      return sendJson(reply, `{"data":[${data.join(',')}],${rest}`)
    },
  )

  app.get<OfBatch>(
    '/v1/batches/:batch',
    { config: read, ...UNCHECKED, schema: BATCH_SCHEMAS.retrieve },
    async (request, reply) => send(reply, viewOf(await found(...idsOf(request)))),
  )

  app.post<OfBatch>(
    '/v1/batches/:batch/cancel',
    { config: { bearer: true }, ...UNCHECKED, schema: BATCH_SCHEMAS.cancel },
    async (request, reply) => {
      const [account, id] = idsOf(request)
      const batch = await store.cancelBatch(account, id, clock.nowMs())
      if (batch === null) throw noSuchBatch(PREFIX + id)
      onBatchChanged()
      return send(reply, viewOf(batch))
    },
  )

  async function found(account: string, id: string): Promise<StoredBatch> {
    const batch = await store.findBatch(account, id)
    if (batch === null) throw noSuchBatch(PREFIX + id)
    return batch
  }
}

function send(reply: FastifyReply, body: object): FastifyReply {
  return sendJson(reply, JSON.stringify(body))
}

function idsOf({ caller, params }: FastifyRequest<OfBatch>): [account: string, batchId: string] {
  const batchId = readBatchId(params.batch)
  if (batchId === null) throw noSuchBatch(params.batch)
  return [caller.account, batchId]
}

function wantedBatch({ input_file_id, endpoint, completion_window, metadata, output_expires_after }: Fields) {
  const inputFileId = typeof input_file_id === 'string' ? fileIdOf(input_file_id) : null
  if (inputFileId === null) throw invalidField('input_file_id', 'must be the id of a file')
  if (typeof endpoint !== 'string' || !Object.hasOwn(ENDPOINTS, endpoint)) {
    throw invalidField('endpoint', `must be ${Object.keys(ENDPOINTS).join(' or ')}`)
  }
  if (completion_window !== WINDOW) throw invalidField('completion_window', `must be ${WINDOW}`)
  const about = {
    metadata: metadata === undefined ? null : metadataOf(metadata),
    window: WINDOW,
    filesExpireS: output_expires_after === undefined ? null : expiryOf(output_expires_after),
  }
  return { inputFileId, endpoint, about }
}

function expiryOf(given: unknown): number {
  const { anchor, seconds } = supportedFields(given, EXPIRES_AFTER, 'output_expires_after')
  if (anchor !== 'created_at') throw invalidField('output_expires_after.anchor', 'must be created_at')
  if (!Number.isInteger(seconds) || Number(seconds) < 3600 || Number(seconds) > 2_592_000)
    throw invalidField('output_expires_after.seconds', 'must be an integer from 3600 to 2592000')
  return Number(seconds)
}

function searchOf({ after, limit = '20' }: Record<string, unknown>) {
  const afterBatchId = typeof after === 'string' ? readBatchId(after) : null
  if (after !== undefined && afterBatchId === null) throw invalidField('after', 'must be the id of a batch')
  const most = /^\d{1,3}$/.test(String(limit)) ? Number(limit) : 0
  if (most < 1 || most > MAX_LISTED) throw invalidField('limit', `must be from 1 to ${MAX_LISTED}`)
  return { limit: most, ...(afterBatchId !== null && { afterBatchId }) }
}

function viewOf(batch: StoredBatch) {
  const progress = progressOf(batch)
  const { metadata, window } = aboutOf(batch)
  const { status, createdAtMs, deadlineMs, cancellingAtMs, outputFileId, errorFileId } = batch
  const { endedAtMs, inProgressAtMs, problems, waiting, inputTokens, cachedTokens, outputTokens } = progress
  const data = waiting === null ? problems : [...problems, { ...waiting, line: null, param: null }]
  return {
    id: PREFIX + batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    ...(data.length > 0 && { errors: { object: 'list', data } }),
    input_file_id: fileName(batch.inputFileId),
    completion_window: window,
    status,
    ...(endedAtMs !== null && outputFileId !== null && { output_file_id: fileName(outputFileId) }),
    ...(endedAtMs !== null && errorFileId !== null && { error_file_id: fileName(errorFileId) }),
    created_at: seconds(createdAtMs),
    expires_at: seconds(deadlineMs),
    ...(inProgressAtMs !== null && { in_progress_at: seconds(inProgressAtMs) }),
    ...(cancellingAtMs !== null && { cancelling_at: seconds(cancellingAtMs) }),
    ...(endedAtMs !== null && { finalizing_at: seconds(endedAtMs), [`${status}_at`]: seconds(endedAtMs) }),
    request_counts: { total: progress.total ?? 0, completed: progress.completed, failed: progress.failed },
    usage: {
      input_tokens: inputTokens,
      input_tokens_details: { cached_tokens: cachedTokens },
      output_tokens: outputTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: inputTokens + outputTokens,
    },
    metadata,
  }
}

const seconds = (ms: number) => Math.floor(ms / 1000)

const noSuchBatch = (id: string) => new V1Error(404, `No such batch: ${id.slice(0, 100)}.`, { param: 'id' })

const tooManyBatches = () =>
  new V1Error(
    429,
    `An account may have ${MAX_OPEN_BATCHES} batches that have not ended. Wait until one has.`,
    { code: 'insufficient_quota', shouldRetry: false },
  )
