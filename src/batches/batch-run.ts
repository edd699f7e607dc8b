/**
 * Runs a batch that this node owns, step by step. Each step is stored in one write. If that fails, or something else has changed
 * the batch, this run is discarded and another one continues from the stored state. Everything before the write can be repeated:
 * lines get their jobs by keys, and results are read again.
 */
import type { Clock } from '../clock.ts'
import { sumOfCosts } from '../job/amount.ts'
import type { CreateElement } from '../job/create-body.ts'
import { callbackText } from '../job/job.ts'
import type { BatchLine, BatchStatus, BatchStep, StoredBatch } from '../store/batch-store.ts'
import type { EndedJob, Store } from '../store/store.ts'
import type { LineFormat, LineResult } from './line-format.ts'
import { InputGone, LineReader } from './line-reader.ts'
import { keyOfLine, type LineStarts } from './line-starts.ts'
import { aboutOf, type BatchAdvance, type Problem, type Progress, progressOf } from './progress.ts'
import { Validation } from './validation.ts'

export type BatchesStore = Pick<
  Store,
  | 'advanceBatch'
  | 'claimBatches'
  | 'linesOfBatch'
  | 'requestsOf'
  | 'readPiece'
  | 'readEnded'
  | 'findMissing'
  | 'cancelOwnJob'
  | 'findOwner'
  | 'findEarlier'
>

export interface BatchRunOptions {
  readonly store: BatchesStore
  readonly node: string
  readonly clock: Pick<Clock, 'nowMs' | 'steadyMs'>
  readonly format: LineFormat
  readonly starts: LineStarts
  readonly makeId: () => string
  readonly maxLineBytes: number
  readonly maxLinesOf: (tier: string) => number
  /** How long files and batches are kept. */
  readonly retentionMs: number
  readonly onCancelled: (jobId: string) => Promise<void>
  /** Called after each step. */
  readonly onAdvanced: (advance: BatchAdvance) => void
}

/** How many lines a step validates, and how many it starts. */
const VALIDATED = 200
const STARTED = 100
/** Maximum bytes of results in one step. */
const RESULT_BYTES = 4 * 1024 * 1024
/** The pause between two attempts to start a line that must wait, and between two searches for deleted jobs. */
const WAIT_MS = 1000

const EXPIRED: Problem = {
  code: 'batch_expired',
  message: 'This request could not be executed before the completion window expired.',
}
const CANCELLED: Problem = {
  code: 'batch_cancelled',
  message: 'This request was not executed because the batch was cancelled.',
}
const JOB_CANCELLED: Problem = { code: 'job_cancelled', message: 'The job of this request was cancelled.' }
const JOB_DELETED: Problem = { code: 'job_deleted', message: 'The job of this request was deleted.' }

/** The results of a step before it is stored. */
interface Gathered {
  progress: Progress
  readonly started: BatchLine[]
  readonly ended: BatchLine[]
  readonly output: string[]
  readonly errors: string[]
}

export class BatchRun {
  readonly #options: BatchRunOptions
  #batch: StoredBatch
  #progress: Progress
  readonly #open: Map<string, BatchLine>
  readonly #reader: LineReader
  #validation: Validation | null = null
  /** Whether lines that were not read yet may have jobs, because a crash prevented that they were recorded. */
  #mayHaveJobs = true
  #inputEnded = false
  #retryAtMs = 0
  #searchAtMs = 0
  readonly #cancelled = new Set<string>()

  static async of(batch: StoredBatch, options: BatchRunOptions): Promise<BatchRun> {
    return new BatchRun(batch, await options.store.linesOfBatch(batch.id), options)
  }

  constructor(batch: StoredBatch, lines: readonly BatchLine[], options: BatchRunOptions) {
    this.#options = options
    this.#batch = batch
    this.#progress = progressOf(batch)
    this.#open = new Map(lines.map((line) => [line.jobId, line]))
    this.#reader = new LineReader(this.#progress.offset, {
      readPiece: (piece) => options.store.readPiece(batch.inputFileId, piece),
      fileBytes: aboutOf(batch).inputBytes,
      maxBytes: options.maxLineBytes,
    })
  }

  get status(): BatchStatus {
    return this.#batch.status
  }

  /** Lines whose jobs have not finished, as far as this node knows. */
  get openLines(): number {
    return this.#open.size
  }

  get version(): number {
    return this.#batch.version
  }

  /** Runs a step. `later`: there is nothing to do now; `lost`: something else has changed the batch. */
  async step(maxOpen: number): Promise<'busy' | 'later' | 'ended' | 'lost'> {
    try {
      return this.#progress.total === null ? await this.#validate() : await this.#run(maxOpen)
    } catch (error) {
      if (!(error instanceof InputGone)) throw error
      const message = 'The input file was deleted before all of it was read.'
      const problems = [{ line: null, code: 'input_file_deleted', message, param: null }]
      return this.#store(this.#gathering({ problems, total: this.#progress.total ?? 0 }), this.#batch.status)
    }
  }

  async #validate() {
    const { format, starts, clock, maxLinesOf } = this.#options
    const batch = this.#batch
    if (batch.status === 'cancelling') return this.#store(this.#gathering({ total: 0 }), 'cancelled')
    const owner = await starts.ownerOf(batch.account)
    if (owner === null) return 'later'
    const maxLines = maxLinesOf(owner.tier.name)
    this.#validation ??= new Validation({ batch, reader: this.#reader, format, starts, maxLines })
    if (!(await this.#validation.check(owner, VALIDATED))) return 'busy'
    const { problems, total } = this.#validation
    this.#validation = null
    if (problems.length > 0) return this.#store(this.#gathering({ problems }), 'failed')
    return this.#store(this.#gathering({ total, inProgressAtMs: clock.nowMs() }), 'in_progress')
  }

  async #run(maxOpen: number) {
    const { clock } = this.#options
    const step = this.#gathering({})
    const isOver = clock.nowMs() >= this.#batch.deadlineMs
    const isCancelling = this.#batch.status === 'cancelling'
    const isGone = step.progress.problems.length > 0
    if (isCancelling) await this.#cancelOpen()
    await this.#collect(step)
    const open = this.#open.size - step.ended.length
    if (!this.#inputEnded && !isGone) {
      if (isCancelling || isOver) await this.#endLines(step, isCancelling ? CANCELLED : EXPIRED)
      else if (open < maxOpen) await this.#startLines(step, Math.min(STARTED, maxOpen - open))
    }
    const isDone = (this.#inputEnded || isGone) && open + step.started.length === 0
    if (!isDone) {
      if (!hasChanged(step, this.#progress)) return 'later'
      return this.#store(step, this.#batch.status)
    }
    if (isCancelling) return this.#store(step, 'cancelled')
    return this.#store(step, isGone ? 'failed' : step.progress.expired ? 'expired' : 'completed')
  }

  async #cancelOpen(): Promise<void> {
    const { store, clock, onCancelled } = this.#options
    const { account } = this.#batch
    const jobIds = [...this.#open.keys()].filter((jobId) => !this.#cancelled.has(jobId))
    for (const jobId of jobIds) {
      const result = await store.cancelOwnJob({ account, jobId, nowMs: clock.nowMs(), inputTokens: null })
      this.#cancelled.add(jobId)
      if (result === 'cancelled') await onCancelled(jobId)
    }
  }

  /** Collects the results of jobs that have finished or were deleted. */
  async #collect(step: Gathered): Promise<void> {
    const { store, clock, format } = this.#options
    const jobIds = [...this.#open.keys()]
    if (jobIds.length === 0) return
    const jobs = await store.readEnded(jobIds, RESULT_BYTES)
    const requests = jobs.length === 0 ? [] : await store.requestsOf(jobs.map(({ id }) => id))
    const byId = new Map(requests.map((request) => [request.jobId, request]))
    for (const job of jobs) {
      const line = this.#open.get(job.id)
      if (line === undefined) continue
      step.ended.push(line)
      const request = byId.get(job.id)
      const result = request === undefined ? JOB_DELETED : (this.#fateOf(job) ?? request)
      if ('code' in result) addProblem(step, format.unfinished(line.customId, job.id, result), result)
      else addResult(step, await format.resultOf(this.#batch, line.customId, job, result))
    }
    if (jobs.length > 0 || clock.steadyMs() < this.#searchAtMs) return
    this.#searchAtMs = clock.steadyMs() + WAIT_MS
    for (const jobId of await store.findMissing(jobIds)) {
      const line = this.#open.get(jobId)
      if (line === undefined) continue
      step.ended.push(line)
      addProblem(step, format.unfinished(line.customId, jobId, JOB_DELETED), JOB_DELETED)
    }
  }

  /** Why a job ended without an answer although nothing failed; otherwise null. */
  #fateOf({ errorJson }: EndedJob): Problem | null {
    const code = errorJson === null ? null : JSON.parse(errorJson).code
    if (code === 'deadline_exceeded') return EXPIRED
    if (code !== 'cancelled') return null
    return this.#batch.status === 'cancelling' ? CANCELLED : JOB_CANCELLED
  }

  /** Reads further lines and starts them, up to the first one that must wait. */
  async #startLines(step: Gathered, limit: number): Promise<void> {
    const { clock, starts, format } = this.#options
    if (clock.steadyMs() < this.#retryAtMs) return
    const owner = await starts.ownerOf(this.#batch.account)
    if (owner === null) return
    // A batch may use half of the jobs that its account may have open.
    const allowed = Math.max(1, Math.floor((owner.quotas?.openJobs?.limit ?? Number.POSITIVE_INFINITY) / 2))
    const most = Math.min(limit, allowed - (this.#open.size - step.ended.length))
    if (most < 1) return
    const lines = await this.#readLines(step.progress.waiting === null ? most : Math.min(1, most))
    const results = await Promise.all(
      lines.map(async ({ line, customId, element, problem }) => {
        if (element === null) return { kind: 'wrong', problem: problem ?? '' } as const
        return { customId, ...(await starts.start(this.#batch, { line, customId }, element, owner)) } as const
      }),
    )
    step.progress = { ...step.progress, waiting: null }
    for (const [at, result] of results.entries()) {
      const read = lines[at]
      if (read === undefined) break
      if (result.kind === 'later') {
        const { code, message } = format.problemOf(result.error)
        step.progress = { ...step.progress, waiting: { code, message } }
        this.#retryAtMs = clock.steadyMs() + WAIT_MS
        this.#inputEnded = false
        break
      }
      const { line, end: offset, customId } = read
      step.progress = { ...step.progress, line, offset }
      if (result.kind === 'started') step.started.push({ line, customId, jobId: result.jobId })
      else if (result.kind === 'wrong') addProblem(step, result.problem, EMPTY)
      else addProblem(step, format.refused(customId, this.#idOf(line), result.error), EMPTY)
    }
  }

  /** Ends lines that have not started. Those that started before a crash end with their jobs. */
  async #endLines(step: Gathered, problem: Problem): Promise<void> {
    const { starts, clock, format } = this.#options
    const mayHaveJobs = this.#mayHaveJobs
    for (const { line, end: offset, customId, problem: wrong } of await this.#readLines(STARTED)) {
      const jobId = mayHaveJobs ? await starts.jobOf(this.#batch, line, clock.nowMs()) : null
      step.progress = { ...step.progress, line, offset, waiting: null }
      if (jobId !== null) step.started.push({ line, customId, jobId })
      else addProblem(step, wrong ?? format.unfinished(customId, this.#idOf(line), problem), problem)
    }
    this.#mayHaveJobs = false
  }

  /** Reads the next lines as they were validated. */
  async #readLines(limit: number) {
    const { format } = this.#options
    const lines: {
      readonly line: number
      readonly end: number
      readonly customId: string
      readonly element: CreateElement | null
      readonly problem: string | null
    }[] = []
    let { line, offset } = this.#progress
    let bytes = 0
    while (lines.length < limit && bytes < RESULT_BYTES) {
      const read = await this.#reader.next(offset)
      if (read === null) {
        this.#inputEnded = true
        break
      }
      line += 1
      offset = read.end
      bytes += read.bytes?.length ?? 0
      if (read.bytes?.length === 0) continue
      const wanted = read.bytes === null ? null : format.read(read.bytes, this.#batch.endpoint)
      if (wanted !== null && 'element' in wanted) lines.push({ line, end: offset, ...wanted, problem: null })
      else {
        // The line was valid before the limits were changed.
        const problem = { code: 'invalid_line', message: wanted?.message ?? 'The line is too long.' }
        const json = format.unfinished('', this.#idOf(line), problem)
        lines.push({ line, end: offset, customId: '', element: null, problem: json })
      }
    }
    return lines
  }

  #idOf(line: number): string {
    return `${this.#batch.id}-${line}`
  }

  #gathering(change: Partial<Progress>): Gathered {
    return {
      progress: { ...this.#progress, ...change },
      started: [],
      ended: [],
      output: [],
      errors: [],
    }
  }

  async #store(step: Gathered, status: BatchStatus): Promise<'busy' | 'ended' | 'lost'> {
    const { store, node, clock, retentionMs, makeId, format, onAdvanced } = this.#options
    const batch = this.#batch
    const { id: batchId, version } = batch
    const nowMs = clock.nowMs()
    const isEnd = status !== 'in_progress' && status !== 'validating' && status !== 'cancelling'
    const progress = isEnd ? { ...step.progress, waiting: null, endedAtMs: nowMs } : step.progress
    const { filesExpireS, webhookUrl } = aboutOf(batch)
    const outputFileId = batch.outputFileId ?? (step.output.length > 0 ? makeId() : null)
    const errorFileId = batch.errorFileId ?? (step.errors.length > 0 ? makeId() : null)
    const stored: BatchStep = {
      batchId,
      node,
      version,
      status,
      progressJson: JSON.stringify(progress),
      started: step.started,
      endedJobIds: step.ended.map(({ jobId }) => jobId),
      forgottenKeys: step.ended.map(({ line }) => keyOfLine(batchId, line)),
      output: extensionOf(outputFileId, step.output),
      errors: extensionOf(errorFileId, step.errors),
      nowMs,
      end: isEnd
        ? {
            removeAtMs: nowMs + retentionMs,
            filesExpireAtMs: nowMs + (filesExpireS === null ? retentionMs : filesExpireS * 1000),
            outputName: `batch_${batchId}_output.jsonl`,
            errorName: `batch_${batchId}_error.jsonl`,
            callback: webhookUrl ? callbackText(format.eventTo(webhookUrl, status)) : null,
          }
        : null,
    }
    if (!(await store.advanceBatch(stored))) return 'lost'
    onAdvanced({
      completed: progress.completed - this.#progress.completed,
      failed: progress.failed - this.#progress.failed,
      ended: isEnd ? status : null,
    })
    this.#batch = { ...batch, version: version + 1, status, outputFileId, errorFileId }
    this.#progress = progress
    for (const { jobId } of step.ended) this.#open.delete(jobId)
    for (const line of step.started) this.#open.set(line.jobId, line)
    return isEnd ? 'ended' : 'busy'
  }
}

const EMPTY: Problem = { code: '', message: '' }

function extensionOf(fileId: string | null, lines: readonly string[]) {
  if (fileId === null || lines.length === 0) return null
  return { fileId, content: Buffer.from(`${lines.join('\n')}\n`) }
}

function addResult(step: Gathered, result: LineResult): void {
  const { progress } = step
  ;(result.failed ? step.errors : step.output).push(result.json)
  step.progress = {
    ...progress,
    completed: progress.completed + (result.failed ? 0 : 1),
    failed: progress.failed + (result.failed ? 1 : 0),
    inputTokens: progress.inputTokens + result.inputTokens,
    cachedTokens: progress.cachedTokens + result.cachedTokens,
    outputTokens: progress.outputTokens + result.outputTokens,
    ...(result.cost !== undefined && { cost: sumOfCosts(progress.cost ?? 0, result.cost) }),
  }
}

function addProblem(step: Gathered, json: string, problem: Problem): void {
  const { progress } = step
  step.errors.push(json)
  const expired = progress.expired || problem === EXPIRED
  step.progress = { ...progress, failed: progress.failed + 1, expired }
}

function hasChanged({ started, ended, progress }: Gathered, before: Progress): boolean {
  if (started.length > 0 || ended.length > 0 || progress.offset !== before.offset) return true
  return progress.waiting?.message !== before.waiting?.message
}
