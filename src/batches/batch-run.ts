/**
 * Runs a batch that this node owns, step by step. While one step is being stored, the next one gathers lines and results.
 *
 * A step is stored as a whole. If that fails, or if another process has changed the batch, this run is discarded, and a new run
 * continues from the stored state. So a step must be repeatable: a line keeps its job, because its idempotency key finds the
 * job, and results are read again.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../clock.ts'
import type { InputPrices } from '../job/cost.ts'
import type { CreateElement } from '../job/create-body.ts'
import { callbackText } from '../job/job.ts'
import type { JobOwner } from '../queue/job-creator.ts'
import {
  type BatchEnd,
  type BatchLine,
  type BatchStatus,
  ENDED_STATUSES,
  type JobRequest,
  type StoredBatch,
} from '../store/batch-store.ts'
import type { EndedJob, Store } from '../store/store.ts'
import type { LineFormat } from './line-format.ts'
import { InputGone, LineReader } from './line-reader.ts'
import { type LineStarts, maxOpenLines } from './line-starts.ts'
import { aboutOf, type BatchAdvance, type Problem, type Progress, progressOf } from './progress.ts'
import { EXPIRED, Step } from './step.ts'
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
  /** How long a batch is stored after its end, and its result files unless the account chose another time. */
  readonly retentionMs: number
  /** Returns the prices of input, for calls that end because their batch is cancelled; absent if no model has a price. */
  readonly inputPrices?: () => InputPrices | undefined
  readonly onCancelled: (jobId: string) => Promise<void>
  readonly onAdvanced: (advance: BatchAdvance) => void
}

/** After this time, a step validates or starts no further lines, because all other batches of the node wait meanwhile. */
const STEP_MS = 200
/** A step with this many starts and results reads no further lines. */
const FULL = 500
/** At most this many lines are read or started at once, and this many requests are read at once. */
const AT_ONCE = 100
/** How many lines or results are read in one turn of the event loop, and how many jobs a step of a cancelled batch cancels. */
const IN_TURN = 25
/**
 * After a crash, this many lines after the last stored one may already have jobs: the lines of the step that was being stored,
 * and of the next one.
 */
const UNSURE = 2 * (FULL + AT_ONCE)
/**
 * A step adds no further results once they have this many characters. It reads at most about this many bytes of lines at once.
 */
const RESULT_BYTES = 4 * 1024 * 1024
/** A line that must wait is tried again after this pause. Searches for deleted jobs are at least this far apart. */
const WAIT_MS = 1000

const CANCELLED: Problem = {
  code: 'batch_cancelled',
  message: 'This request was not executed because the batch was cancelled.',
}
const JOB_CANCELLED: Problem = { code: 'job_cancelled', message: 'The job of this request was cancelled.' }
const JOB_DELETED: Problem = { code: 'job_deleted', message: 'The job of this request was deleted.' }

type StepResult = 'full' | 'busy' | 'later' | 'ended' | 'lost'

export class BatchRun {
  readonly #options: BatchRunOptions
  #batch: StoredBatch
  /** The progress includes the step that is being stored. */
  #progress: Progress
  readonly #open: Map<string, BatchLine>
  /**
   * These lines started although an earlier line waits. Later steps read them again. By then, a job may have been deleted, and
   * its line must not start a second time.
   */
  readonly #ahead = new Map<number, BatchLine>()
  readonly #reader: LineReader
  #validation: Validation | null = null
  /** How many of the next lines may already have jobs, because a crash prevented the record of their start. */
  #unsure = UNSURE
  #inputEnded = false
  #retryAtMs = 0
  #searchAtMs = 0
  readonly #cancelled = new Set<string>()
  /** Resolves to whether the last step was stored; false if another process has changed the batch. */
  #stored: Promise<boolean> = Promise.resolve(true)

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

  get account(): string {
    return this.#batch.account
  }

  get openLines(): number {
    return this.#open.size
  }

  get version(): number {
    return this.#batch.version
  }

  /**
   * Runs a step, and starts to store it if it changed the batch. `later`: there is nothing to do now. `lost`: another process
   * has changed the batch. If a step cannot be stored, the next one reports this, as `lost` or as a rejection.
   */
  async step(maxOpen: number): Promise<StepResult> {
    const step = new Step(this.#progress)
    try {
      return step.progress.total === null ? await this.#validate(step) : await this.#run(step, maxOpen)
    } catch (error) {
      if (!(error instanceof InputGone)) throw error
      const message = 'The input file was deleted before all of it was read.'
      const problems = [{ line: null, code: 'input_file_deleted', message, param: null }]
      step.progress = { ...step.progress, problems, total: step.progress.total ?? 0 }
      // These lines have jobs, although the lines cannot be read again.
      for (const line of this.#ahead.values()) this.#begin(step, line)
      return this.#store(step, this.#batch.status)
    }
  }

  /** Resolves when no step is being stored. The next step reports whether storing failed. */
  async settled(): Promise<void> {
    await this.#stored.catch(() => {})
  }

  async #validate(step: Step): Promise<StepResult> {
    const { format, starts, clock, maxLinesOf } = this.#options
    const batch = this.#batch
    if (batch.status === 'cancelling') {
      step.progress = { ...step.progress, total: 0 }
      return this.#store(step, 'cancelled')
    }
    const owner = await starts.ownerOf(batch.account)
    if (owner === null) return 'later'
    const maxLines = maxLinesOf(owner.tier.name)
    this.#validation ??= new Validation({ batch, reader: this.#reader, format, starts, maxLines })
    const untilMs = clock.steadyMs() + STEP_MS
    for (let checked = 1; !(await this.#validation.checkNext(owner)); checked++) {
      if (clock.steadyMs() >= untilMs) return 'full'
      if (checked % IN_TURN === 0) await nextTurn()
    }
    const { problems, total } = this.#validation
    this.#validation = null
    const isWrong = problems.length > 0
    step.progress = isWrong
      ? { ...step.progress, problems }
      : { ...step.progress, total, inProgressAtMs: clock.nowMs() }
    return this.#store(step, isWrong ? 'failed' : 'in_progress')
  }

  async #run(step: Step, maxOpen: number): Promise<StepResult> {
    const isCancelling = this.#batch.status === 'cancelling'
    const isGone = step.progress.problems.length > 0
    if (isCancelling) await this.#cancelOpen()
    await this.#collect(step)
    if (!isGone) await this.#readOn(step, maxOpen)
    const isDone = (this.#inputEnded || isGone) && this.#open.size === 0
    if (isDone) {
      const ended = isGone ? 'failed' : step.progress.expired ? 'expired' : 'completed'
      return this.#store(step, isCancelling ? 'cancelled' : ended)
    }
    if (hasChanged(step, this.#progress)) return this.#store(step, this.#batch.status)
    return (await this.#stored) ? 'later' : 'lost'
  }

  /** Starts or ends the next lines, several at a time. */
  async #readOn(step: Step, maxOpen: number): Promise<void> {
    const { starts, clock } = this.#options
    const isOver = clock.nowMs() >= this.#batch.deadlineMs
    const ending = this.#batch.status === 'cancelling' ? CANCELLED : isOver ? EXPIRED : null
    const untilMs = clock.steadyMs() + STEP_MS
    let owner: JobOwner | null = null
    while (!this.#inputEnded && step.size < FULL && clock.steadyMs() < untilMs) {
      const { size } = step
      if (ending !== null) await this.#endLines(step, ending)
      else {
        if (this.#open.size >= maxOpen || clock.steadyMs() < this.#retryAtMs) return
        owner ??= await starts.ownerOf(this.#batch.account)
        if (owner === null) return
        await this.#startLines(step, owner, maxOpen)
      }
      if (step.size === size) return
    }
  }

  /** Cancels the jobs of some open lines. Later steps cancel the rest, so that other batches need not wait. */
  async #cancelOpen(): Promise<void> {
    const { store, clock, inputPrices, onCancelled } = this.#options
    const { account } = this.#batch
    const prices = inputPrices?.()
    const which = { account, inputTokens: null, ...(prices && { inputPrices: prices }) }
    const jobIds = [...this.#open.keys()].filter((jobId) => !this.#cancelled.has(jobId))
    const cancel = async (jobId: string) => {
      const result = await store.cancelOwnJob({ ...which, jobId, nowMs: clock.nowMs() })
      this.#cancelled.add(jobId)
      if (result === 'cancelled') await onCancelled(jobId)
    }
    await Promise.all(jobIds.slice(0, IN_TURN).map(cancel))
  }

  /** Adds the results of finished jobs, and those of lines whose jobs were deleted. */
  async #collect(step: Step): Promise<void> {
    const { store, clock, format } = this.#options
    const jobIds = [...this.#open.keys()]
    if (jobIds.length === 0) return
    const jobs = await store.readEnded(jobIds, RESULT_BYTES)
    let byId: ReadonlyMap<string, JobRequest> = new Map()
    for (const [at, job] of jobs.entries()) {
      // Results of /v1/responses can be larger than answers, because they repeat instructions and schema. The next step takes
      // the rest.
      if (step.characters >= RESULT_BYTES) break
      if (at % AT_ONCE === 0) {
        const requests = await store.requestsOf(jobs.slice(at, at + AT_ONCE).map(({ id }) => id))
        byId = new Map(requests.map((request) => [request.jobId, request]))
      }
      const line = this.#end(step, job.id)
      if (line === null) continue
      if (at % IN_TURN === IN_TURN - 1) await nextTurn()
      const request = byId.get(job.id)
      if (request === undefined) {
        step.addProblem(format.unfinished(line.customId, job.id, JOB_DELETED), JOB_DELETED)
        continue
      }
      const result = await format.resultOf(this.#batch, line.customId, job, request)
      const fate = this.#fateOf(job)
      if (fate === null) step.addResult(result)
      else
        step.addResult(
          { ...result, failed: true, json: format.unfinished(line.customId, job.id, fate) },
          fate,
        )
    }
    if (jobs.length > 0 || clock.steadyMs() < this.#searchAtMs) return
    this.#searchAtMs = clock.steadyMs() + WAIT_MS
    for (const jobId of await store.findMissing(jobIds)) {
      const line = this.#end(step, jobId)
      if (line === null) continue
      step.addProblem(format.unfinished(line.customId, jobId, JOB_DELETED), JOB_DELETED)
    }
  }

  #end(step: Step, jobId: string): BatchLine | null {
    const line = this.#open.get(jobId)
    if (line === undefined) return null
    this.#open.delete(jobId)
    step.end(line)
    return line
  }

  #begin(step: Step, line: BatchLine): void {
    this.#ahead.delete(line.line)
    this.#open.set(line.jobId, line)
    step.begin(line)
  }

  /** Returns why a job was cancelled or expired; null for other jobs. */
  #fateOf({ errorJson }: EndedJob): Problem | null {
    const code = errorJson === null ? null : JSON.parse(errorJson).code
    if (code === 'deadline_exceeded') return EXPIRED
    if (code !== 'cancelled') return null
    return this.#batch.status === 'cancelling' ? CANCELLED : JOB_CANCELLED
  }

  async #startLines(step: Step, owner: JobOwner, maxOpen: number): Promise<void> {
    const { clock, starts, format } = this.#options
    const most = Math.min(AT_ONCE, Math.min(maxOpen, maxOpenLines(owner)) - this.#open.size)
    if (most < 1) return
    const lines = await this.#readLines(step, step.progress.waiting === null ? most : 1)
    const results = await Promise.all(
      lines.map(async ({ line, customId, element, problem }) => {
        if (element === null) return { kind: 'wrong', problem: problem ?? '' } as const
        const ahead = this.#ahead.get(line)
        if (ahead !== undefined) return { kind: 'started', jobId: ahead.jobId } as const
        return await starts.start(this.#batch, { line, customId }, element, owner)
      }),
    )
    step.progress = { ...step.progress, waiting: null }
    for (const [at, result] of results.entries()) {
      const read = lines[at]
      if (read === undefined) break
      if (result.kind === 'later') {
        const { code, message } = format.problemOf(this.#batch.endpoint, result.error)
        step.progress = { ...step.progress, waiting: { code, message } }
        this.#retryAtMs = clock.steadyMs() + WAIT_MS
        this.#inputEnded = false
        for (const [place, { line, customId }] of lines.entries()) {
          const other = results[place]
          if (place > at && other?.kind === 'started')
            this.#ahead.set(line, { line, customId, jobId: other.jobId })
        }
        break
      }
      const { line, end: offset, customId } = read
      step.progress = { ...step.progress, line, offset }
      if (result.kind === 'started') this.#begin(step, { line, customId, jobId: result.jobId })
      else if (result.kind === 'wrong') step.addProblem(result.problem, EMPTY)
      else
        step.addProblem(format.refused(this.#batch.endpoint, customId, this.#idOf(line), result.error), EMPTY)
    }
  }

  /** Ends lines without starting them. If a line already has a job, its result is that of the job. */
  async #endLines(step: Step, problem: Problem): Promise<void> {
    const { starts, clock, format } = this.#options
    for (const { line, end: offset, customId, problem: wrong } of await this.#readLines(step, AT_ONCE)) {
      const earlier = this.#unsure > 0 ? await starts.jobOf(this.#batch, line, clock.nowMs()) : null
      const jobId = this.#ahead.get(line)?.jobId ?? earlier
      this.#unsure -= 1
      step.progress = { ...step.progress, line, offset, waiting: null }
      if (jobId !== null) this.#begin(step, { line, customId, jobId })
      else step.addProblem(wrong ?? format.unfinished(customId, this.#idOf(line), problem), problem)
    }
  }

  async #readLines(step: Step, limit: number) {
    const { format } = this.#options
    const lines: {
      readonly line: number
      readonly end: number
      readonly customId: string
      readonly element: CreateElement | null
      readonly problem: string | null
    }[] = []
    let { line, offset } = step.progress
    let bytes = 0
    for (let reads = 1; lines.length < limit && bytes < RESULT_BYTES; reads++) {
      if (reads % IN_TURN === 0) await nextTurn()
      const read = await this.#reader.next(offset)
      if (read === null) {
        this.#inputEnded = true
        break
      }
      line += 1
      offset = read.end
      bytes += read.bytes?.length ?? 0
      if (read.bytes?.length === 0) continue
      const wanted = read.bytes === null ? null : await format.read(read.bytes, this.#batch)
      if (wanted !== null && 'element' in wanted) lines.push({ line, end: offset, ...wanted, problem: null })
      else {
        // The line was valid when the batch was validated, but a limit has changed since.
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

  /**
   * Waits until the previous step is stored, then starts to store this one. The last step of the batch is stored when this
   * resolves.
   */
  async #store(step: Step, status: BatchStatus): Promise<StepResult> {
    const { store, node, clock, makeId, onAdvanced } = this.#options
    if (!(await this.#stored)) return 'lost'
    const nowMs = clock.nowMs()
    const isEnd = (ENDED_STATUSES as readonly string[]).includes(status)
    const ended = isEnd ? status : null
    if (isEnd) step.progress = { ...step.progress, waiting: null, endedAtMs: nowMs }
    const batch = this.#batch
    const stored = step.toStore(batch, {
      node,
      status,
      nowMs,
      makeId,
      end: isEnd ? this.#endOf(status, nowMs) : null,
    })
    const [before, after] = [this.#progress, step.progress]
    this.#progress = after
    const outputFileId = stored.output?.fileId ?? batch.outputFileId
    const errorFileId = stored.errors?.fileId ?? batch.errorFileId
    this.#batch = { ...batch, version: batch.version + 1, status, outputFileId, errorFileId }
    this.#stored = store.advanceBatch(stored).then((isStored) => {
      const completed = after.completed - before.completed
      if (isStored) onAdvanced({ completed, failed: after.failed - before.failed, ended })
      return isStored
    })
    if (isEnd) return (await this.#stored) ? 'ended' : 'lost'
    // The next step handles the rejection.
    this.#stored.catch(() => {})
    return step.size < FULL ? 'busy' : 'full'
  }

  #endOf(status: BatchStatus, nowMs: number): BatchEnd {
    const { retentionMs, format } = this.#options
    const { id } = this.#batch
    const { filesExpireS, webhookUrl } = aboutOf(this.#batch)
    return {
      removeAtMs: nowMs + retentionMs,
      filesExpireAtMs: nowMs + (filesExpireS === null ? retentionMs : filesExpireS * 1000),
      outputName: `batch_${id}_output.jsonl`,
      errorName: `batch_${id}_error.jsonl`,
      callback: webhookUrl ? callbackText(format.eventTo(webhookUrl, status)) : null,
    }
  }
}

const EMPTY: Problem = { code: '', message: '' }

function hasChanged({ size, progress }: Step, before: Progress): boolean {
  return (
    size > 0 || progress.offset !== before.offset || progress.waiting?.message !== before.waiting?.message
  )
}
