/**
 * Reads one job, or up to a hundred, as many as fit into 8 MiB (SPEC §4.2). A read can wait until jobs have finished on any
 * node.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Clock, wholeMs } from '../clock.ts'
import {
  type JobsToAwait,
  type JobWait,
  type JobWaitEnd,
  type PendingResponses,
  waitForJobs,
} from '../queue/pending-responses.ts'
import type { ReadJob, Store } from '../store/store.ts'
import { type Static, Type } from '../typed-schema.ts'
import './request-context.ts'
import { readJobId } from '../job/job-id.ts'
import {
  hasEnded,
  type Include,
  type JobRecord,
  jobRecordJson,
  type MetadataById,
  NO_METADATA,
} from '../job/job-record.ts'
import type { Expiry } from '../store/expiry.ts'
import { sendData } from './envelope.ts'
import { invalid, noSuchJob } from './errors.ts'
import { LARGE_ANSWER, type LargeAnswers } from './large-answers.ts'
import { includeParameter, jobIdParam } from './openapi/job-schemas.ts'
import { answers, errors } from './openapi/schemas.ts'
import { convertQuery } from './query.ts'

/** The longest wait is as long as the longest `timeout` (SPEC §2.1). */
const MAX_WAIT_S = 120
export const waitParameter = Type.Optional(
  Type.Number({
    minimum: 0,
    maximum: MAX_WAIT_S,
    default: 0,
    examples: [60],
    description:
      'How many seconds to wait for the job to finish; then the current state is returned. A server that is full or shutting down responds sooner, with Retry-After.',
  }),
)
/** The response has this Retry-After if the server could not wait for the full time. */
const RETRY_AFTER_S = '2'

interface JobAwaiterOptions {
  readonly pendingResponses: Pick<PendingResponses, 'add'>
  readonly store: Pick<Store, 'announceWaits'>
  /** If this node runs the job, no other node finishes it, so the wait need not be announced to other nodes. */
  readonly isRunning: (jobId: string) => boolean
}

interface AwaitedJobs extends Pick<JobsToAwait, 'jobIds' | 'until'> {
  readonly waitS: number
  /** Reads the jobs again, because some may have finished before the wait started. */
  readonly haveEnded: () => Promise<boolean>
}

interface AwaitingRequest {
  readonly caller: { readonly account: string }
}

export interface AwaitedReply {
  readonly raw: { on(event: 'close', listener: () => void): unknown }
  readonly request: { readonly raw: { readonly socket: { readonly destroyed: boolean } } }
  header(name: string, value: string): unknown
}

/** Lets a request wait until jobs have finished on any node. */
export class JobAwaiter {
  readonly #options: JobAwaiterOptions

  constructor(options: JobAwaiterOptions) {
    this.#options = options
  }

  /**
   * Resolves when the jobs have finished, the time is over, or the client has disconnected. Resolves with true if the server
   * could not wait for the full time. The response then needs Retry-After if jobs are unfinished.
   */
  async wait(request: AwaitingRequest, reply: AwaitedReply, awaited: AwaitedJobs): Promise<boolean> {
    const { jobIds, until, waitS } = awaited
    const { account } = request.caller
    const { pendingResponses } = this.#options
    const wait = waitForJobs(pendingResponses, { account, jobIds, ms: wholeMs(waitS), until })
    if (wait === null) return true
    const {
      raw,
      request: {
        raw: { socket },
      },
    } = reply
    raw.on('close', wait.leave)
    if (socket.destroyed) wait.leave()
    try {
      if ((await this.#endOf(wait, awaited)) !== 'stopping') return false
      reply.header('connection', 'close')
      return true
    } finally {
      wait.leave()
    }
  }

  async #endOf(wait: JobWait, { jobIds, haveEnded }: AwaitedJobs): Promise<JobWaitEnd> {
    const { store, isRunning } = this.#options
    const announced = store.announceWaits(jobIds.filter((jobId) => !isRunning(jobId)))
    // While the database does not respond, `announceWaits` may take longer than the wait.
    const end = await Promise.race([announced.then(() => null), wait.ended])
    if (end !== null) return end
    return (await haveEnded()) ? 'ended' : wait.ended
  }
}

function askAgainLater(reply: FastifyReply): void {
  reply.header('retry-after', RETRY_AFTER_S)
}

interface JobReaderOptions {
  readonly store: Pick<Store, 'read' | 'metadataOf' | 'areOverBudget'>
  readonly clock: Pick<Clock, 'nowMs'>
  readonly retentionMs: number
  /** `budgetsWait` is true if a tier lets jobs wait for the budget of their account. */
  readonly budgetsWait: boolean
  readonly answers: Pick<LargeAnswers, 'reserve'>
}

/** Reads jobs for callers, and counts the bytes of large results before it loads them. */
export class JobReader {
  readonly #options: JobReaderOptions

  constructor(options: JobReaderOptions) {
    this.#options = options
  }

  expiry(): Expiry {
    return { nowMs: this.#options.clock.nowMs(), retentionMs: this.#options.retentionMs }
  }

  /** Returns null if the account has no such job. Throws a 503 if the result is too large to be sent now. */
  async read(request: FastifyRequest, jobId: string): Promise<JobRecord | null> {
    const { store, answers } = this.#options
    const { account } = request.caller
    const expiry = this.expiry()
    const record = await store.read(account, jobId, expiry, LARGE_ANSWER)
    if (!record || record.omittedBytes === 0) return record
    await answers.reserve(request, record.omittedBytes)
    return store.read(account, jobId, expiry)
  }

  /** Returns an empty map unless `include` contains `metadata`. */
  async metadataOf(include: readonly Include[], jobIds: readonly string[]): Promise<MetadataById> {
    return include.includes('metadata') ? this.#options.store.metadataOf(jobIds) : NO_METADATA
  }

  /** If `include` contains `usage`, marks the jobs that wait for the budget of their account. */
  async withWaits<Record extends JobRecord>(
    include: readonly Include[],
    records: readonly Record[],
  ): Promise<readonly Record[]> {
    const isAsked = this.#options.budgetsWait && include.includes('usage')
    const open = isAsked ? records.filter((record) => !hasEnded(record)) : []
    if (open.length === 0) return records
    const waiting = new Set(await this.#options.store.areOverBudget(open.map(({ id }) => id)))
    return records.map((record) => (waiting.has(record.id) ? { ...record, waitsForBudget: true } : record))
  }

  /** Omits large results and errors, so that all states together need not be counted. */
  states({ caller }: FastifyRequest, jobIds: readonly string[]): Promise<(ReadJob | null)[]> {
    const expiry = this.expiry()
    const small = Math.floor(LARGE_ANSWER / jobIds.length)
    return Promise.all(jobIds.map((jobId) => this.#options.store.read(caller.account, jobId, expiry, small)))
  }

  /** Loads what `states` omitted, in the order of the states. Throws like `read`. */
  async load(request: FastifyRequest, states: readonly ReadJob[]): Promise<(JobRecord | null)[]> {
    const { store, answers } = this.#options
    const { account } = request.caller
    const bytes = states.reduce((sum, { omittedBytes }) => sum + omittedBytes, 0)
    if (bytes > LARGE_ANSWER) await answers.reserve(request, bytes)
    const expiry = this.expiry()
    return Promise.all(
      states.map((state) => (state.omittedBytes === 0 ? state : store.read(account, state.id, expiry))),
    )
  }
}

export interface ReadJobRoute {
  readonly reader: JobReader
  readonly awaiter: JobAwaiter
}

export const STATUS_MESSAGES = {
  pending: 'The job is queued.',
  assigned: 'The job is being processed.',
  completed: 'The job is completed.',
  failed: 'The job has failed.',
} as const

const query = Type.Object({ wait: waitParameter, include: includeParameter })

const schema = {
  operationId: 'getMessage',
  summary: 'Read a job',
  description:
    'Returns the current state of the job; with `wait`, as soon as the job has finished. Either way, this counts as one read.',
  tags: ['Jobs'],
  security: [{ apiKey: [] }],
  params: jobIdParam,
  querystring: query,
  response: { 200: answers.read, ...errors(400, 401, 404, 429, 500, 503) },
}

export function readJobRoute(app: FastifyInstance, { reader, awaiter }: ReadJobRoute): void {
  app.get<{ Params: { jobId: string }; Querystring: Static<typeof query> }>(
    '/api/v1/messages/:jobId',
    { config: { limitReads: true }, preValidation: convertQuery, schema },
    async (request, reply) => {
      const jobId = readJobId(request.params.jobId)
      const { wait = 0, include } = request.query
      if (jobId === null) throw noSuchJob()
      let record = await reader.read(request, jobId)
      if (!record) throw noSuchJob()
      request.jobIds = [jobId]
      if (wait > 0 && !hasEnded(record)) {
        const haveEnded = async () => {
          const [state] = await reader.states(request, [jobId])
          return !state || hasEnded(state)
        }
        const wasCut = await awaiter.wait(request, reply, {
          jobIds: [jobId],
          until: 'all',
          waitS: wait,
          haveEnded,
        })
        record = await reader.read(request, jobId)
        if (!record) throw noSuchJob()
        if (wasCut && !hasEnded(record)) askAgainLater(reply)
      }
      const metadata = include?.includes('metadata') ? await reader.metadataOf(include, [jobId]) : undefined
      if (include !== undefined && !hasEnded(record)) {
        const [known] = await reader.withWaits(include, [record])
        record = known ?? record
      }
      return sendData(reply, 200, STATUS_MESSAGES[record.status], jobRecordJson(record, include, metadata))
    },
  )
}

export const MAX_IDS = 100
/** Limits the jobs in one response, without their metadata. The first job is always sent. */
const MAX_BYTES = 8 * 1024 * 1024
/** In a response, a job counts as this many bytes and the length of its result or error. */
const OBJECT_BYTES = 512

interface JobsToRead {
  readonly ids: readonly string[]
  readonly waitS: number
  readonly until: 'any' | 'all'
  readonly include: readonly Include[]
}

export type ReadMany = (
  request: FastifyRequest,
  reply: FastifyReply,
  jobs: JobsToRead,
) => Promise<FastifyReply>

export function createReadMany(reader: JobReader, awaiter: JobAwaiter): ReadMany {
  return async (request, reply, { ids, waitS, until, include }) => {
    const jobIds = readIds(ids)
    const states = await reader.states(request, jobIds)
    if (waitS > 0 && !areOver(states, until)) {
      const open = jobIds.filter((_, index) => isOpen(states[index]))
      const haveEnded = async () => areOver(await reader.states(request, open), until)
      const wasCut = await awaiter.wait(request, reply, { jobIds: open, until, waitS, haveEnded })
      // A finished job does not change, so only the open jobs are read again.
      const now = (await reader.states(request, open)).values()
      for (const [index, state] of states.entries())
        if (isOpen(state)) states[index] = now.next().value ?? null
      if (wasCut && !areOver(states, until)) askAgainLater(reply)
    }
    return sendJobs(request, reply, jobIds, states, include)
  }

  async function sendJobs(
    request: FastifyRequest,
    reply: FastifyReply,
    jobIds: readonly string[],
    states: readonly (ReadJob | null)[],
    include: readonly Include[],
  ): Promise<FastifyReply> {
    const found = states.filter((state) => state !== null)
    const { fitting, more } = fit(found)
    const records = await reader.load(request, fitting)
    // A job may have expired or been deleted since its state was read.
    const gone = new Set(fitting.filter((_, index) => !records[index]).map(({ id }) => id))
    const notFound = jobIds.filter((jobId, index) => states[index] === null || gone.has(jobId))
    const jobs = await reader.withWaits(
      include,
      records.filter((record) => record !== null),
    )
    request.jobIds = jobs.map(({ id }) => id)
    const metadata = await reader.metadataOf(include, request.jobIds)
    const json = `{"jobs":[${jobs.map((job) => jobRecordJson(job, include, metadata)).join(',')}],"not_found":${JSON.stringify(notFound)},"more":${JSON.stringify(more)}}`
    const ended = found.filter(hasEnded).length
    return sendData(reply, 200, `${ended} of ${jobIds.length} jobs have finished.`, json)
  }
}

/** Removes duplicates. Throws 400 for a text that is not a job ID. */
function readIds(ids: readonly string[]): string[] {
  const jobIds = ids.map((text, index) => {
    const jobId = readJobId(text)
    if (jobId === null) throw invalid(`ids[${index}]: is not a job ID`)
    return jobId
  })
  return [...new Set(jobIds)]
}

function isOpen(state: ReadJob | null | undefined): boolean {
  return state !== null && state !== undefined && !hasEnded(state)
}

/** A job that does not exist counts as finished. */
function areOver(states: readonly (ReadJob | null)[], until: 'any' | 'all'): boolean {
  return until === 'all' ? !states.some(isOpen) : !states.every(isOpen)
}

/** Splits the jobs into those that fit into one response, and the IDs of the others. */
function fit(states: readonly ReadJob[]): { fitting: ReadJob[]; more: string[] } {
  const fitting: ReadJob[] = []
  const more: string[] = []
  let bytes = 0
  for (const state of states) {
    const { contentJson, errorJson, omittedBytes } = state
    const size = OBJECT_BYTES + omittedBytes + Buffer.byteLength(contentJson ?? errorJson ?? '')
    if (fitting.length > 0 && bytes + size > MAX_BYTES) more.push(state.id)
    else {
      fitting.push(state)
      bytes += size
    }
  }
  return { fitting, more }
}
