/**
 * Sends the jobs of `parley batch` in batches, in order, and waits until all have finished. One loop sends while another reads
 * results. Together they limit how many unfinished jobs the server has.
 */
import { setTimeout as pause } from 'node:timers/promises'
import {
  type BatchJob,
  InvalidRequestError,
  type Me,
  type Parley,
  PermissionError,
} from '../../../client/src/index.ts'
import { CommandError } from '../input-output.ts'
import { EXIT } from '../options.ts'
import { endedRow, expiredRow, invalidRow, type Journal } from './journal.ts'

/** With pauses of up to eight seconds, these retries take about five minutes. Waits for jobs tolerate an outage for as long. */
const RETRIES = 60
/** Servers up to version 0.4 do not report how long they remember an idempotency key. This is their default. */
const KEY_LIFETIME_S = 86_400

/** The server may cache an account's number of open jobs for this long, and reject jobs although there is room again. */
const COUNTED_MS = 200

export interface InputJob {
  readonly index: number
  readonly number: number
  readonly customId: string | undefined
  job(): BatchJob
}

export interface RunParts {
  readonly parley: Parley
  readonly me: Me
  readonly journal: Journal
  readonly jobs: readonly InputJob[]
  readonly concurrency: number
  /** If true, the run continues after the server rejects a line. */
  readonly skipInvalid: boolean
  /** Batches are sent again even if the server may have forgotten their keys, so they may cost twice. */
  readonly sendAgain: boolean
  readonly onChange: () => void
}

export class BatchRun {
  readonly #parts: RunParts
  readonly #byIndex: ReadonlyMap<number, InputJob>
  readonly #changes = new ChangeNotifier()
  #limits: Me['limits']
  /** The run may have this many unfinished jobs now: `concurrency`, or less if the account's quota has less room. */
  #most = 1
  readonly #queue: string[] = []
  readonly #indexByJobId = new Map<string, number>()
  #open = 0
  /** Jobs before this position have been sent, have finished, or belong to the batch that is being sent. */
  #nextToSend = 0
  #allSent = false

  constructor(parts: RunParts) {
    this.#parts = parts
    this.#limits = parts.me.limits
    this.#byIndex = new Map(parts.jobs.map((job) => [job.index, job]))
  }

  /** Resolves when the journal has a result for every job. The first error ends the run, which can be resumed later. */
  async run(outer: AbortSignal): Promise<void> {
    const controller = new AbortController()
    const signal = AbortSignal.any([outer, controller.signal])
    signal.addEventListener('abort', () => this.#changes.notify(), { once: true })
    for (const { index } of this.#parts.jobs) {
      if (this.#parts.journal.jobIds.has(index) && !this.#parts.journal.hasEnded(index)) this.#enqueue(index)
    }
    this.#learn(this.#parts.me)
    const work = [this.#sendAll(signal), this.#readAll(signal)]
    try {
      await Promise.all(work)
    } catch (error) {
      controller.abort()
      await Promise.allSettled(work)
      throw error
    }
  }

  /** Until the next batch is sent, the quota keeps room for the account's other open jobs. */
  #learn({ limits, open_jobs = 0 }: Me): void {
    this.#limits = limits
    this.#useQuota(Math.max(0, open_jobs - this.#open))
  }

  #useQuota(others: number): void {
    const room = (this.#limits.max_open_jobs ?? Number.POSITIVE_INFINITY) - others
    this.#most = Math.max(1, Math.min(this.#parts.concurrency, room))
  }

  async #sendAll(signal: AbortSignal): Promise<void> {
    const { journal } = this.#parts
    for (const { jobs, atS } of journal.unknownOutcomes) {
      this.#assertRemembered(jobs, atS)
      await this.#send(this.#jobsOf(jobs), signal)
    }
    for (let next = this.#nextBatch(); next.length > 0; next = this.#nextBatch()) {
      await this.#waitForCapacity(next.length, signal)
      await this.#send(next, signal)
    }
    this.#allSent = true
    this.#changes.notify()
  }

  async #waitForCapacity(jobs: number, signal: AbortSignal): Promise<void> {
    while (this.#open > 0 && this.#open + jobs > this.#most) {
      await this.#changes.next()
      signal.throwIfAborted()
    }
  }

  #nextBatch(): readonly InputJob[] {
    const { journal, jobs } = this.#parts
    const most = Math.min(this.#limits.max_batch_jobs, this.#most)
    const batch: InputJob[] = []
    let bytes = 2
    for (; this.#nextToSend < jobs.length && batch.length < most; this.#nextToSend++) {
      const job = jobs[this.#nextToSend]
      if (!job || journal.jobIds.has(job.index) || journal.hasEnded(job.index)) continue
      bytes += Buffer.byteLength(JSON.stringify(job.job())) + 1
      if (bytes > this.#limits.batch_body_bytes && batch.length > 0) break
      batch.push(job)
    }
    return batch
  }

  async #send(batch: readonly InputJob[], signal: AbortSignal): Promise<void> {
    const { parley, journal, onChange } = this.#parts
    const indexes = batch.map(({ index }) => index)
    const mayBeKnown = journal.hasUnknownOutcome(indexes[0] ?? -1)
    journal.sending(indexes, Math.floor(Date.now() / 1000))
    try {
      const jobIds = await parley.messages.createBatch(
        batch.map((one) => one.job()),
        {
          // The key depends only on the run and the first line. After a crash, the server therefore recognizes a batch that it
          // already has.
          idempotencyKey: `${journal.run}.${indexes[0]}`,
          batchSize: batch.length,
          maxRetries: RETRIES,
          signal,
        },
      )
      journal.sent(indexes, jobIds)
    } catch (error) {
      if (!(error instanceof InvalidRequestError || error instanceof PermissionError)) throw error
      // The server checks the idempotency key last. It may have created the jobs at an earlier try and reject this one, for
      // example because the account is suspended now.
      if (!mayBeKnown) journal.refused(indexes)
      await this.#handleRejection(error, batch, signal)
      this.#nextToSend = 0
      return
    }
    for (const index of indexes) this.#enqueue(index)
    this.#useQuota(0)
    onChange()
  }

  /** Resolves when it makes sense to send the rejected jobs again, perhaps in smaller batches. Otherwise throws. */
  async #handleRejection(
    error: InvalidRequestError | PermissionError,
    batch: readonly InputJob[],
    signal: AbortSignal,
  ): Promise<void> {
    const { parley, journal, skipInvalid, onChange } = this.#parts
    if (error instanceof PermissionError) {
      // The tier may have changed since its limits were read, or the account may have created other jobs.
      const me = await parley.me({ signal })
      this.#learn(me)
      if (batch.length > Math.min(this.#limits.max_batch_jobs, this.#most)) return
      if (!/ open jobs, /.test(error.message)) throw error
      const room = (me.limits.max_open_jobs ?? Number.POSITIVE_INFINITY) - (me.open_jobs ?? 0)
      if (batch.length <= room) return pause(COUNTED_MS, undefined, { signal })
      if (this.#open === 0) throw error
      return this.#changes.next()
    }
    const [, position, reason] = /^jobs\[(\d+)\]\.?(.*)$/s.exec(error.details ?? '') ?? []
    const job = position === undefined ? undefined : batch[Number(position)]
    if (!job || reason === undefined) throw error
    if (!skipInvalid) {
      throw new CommandError(
        `The server rejected line ${job.number}: ${reason}. Correct the line, or pass --skip-invalid to leave it out.`,
        EXIT.other,
      )
    }
    journal.settle(job.index, invalidRow(job, reason), null)
    onChange()
  }

  #enqueue(index: number): void {
    const jobId = this.#parts.journal.jobIds.get(index)
    if (jobId === undefined) throw new Error(`line ${index} has no job`)
    this.#indexByJobId.set(jobId, index)
    this.#queue.push(jobId)
    this.#open += 1
    this.#changes.notify()
  }

  /** Yields each job ID after the job was sent. Ends when all jobs have been sent. */
  async *#jobIds(signal: AbortSignal): AsyncGenerator<string, void, undefined> {
    for (let next = 0; ; next++) {
      while (next === this.#queue.length) {
        if (this.#allSent) return
        await this.#changes.next()
        signal.throwIfAborted()
      }
      yield this.#queue[next] ?? ''
    }
  }

  async #readAll(signal: AbortSignal): Promise<void> {
    const { parley, journal } = this.#parts
    const onMissing = (jobId: string) => {
      const index = this.#indexOf(jobId)
      const [line] = this.#jobsOf([index])
      if (line) journal.settle(index, expiredRow(line, jobId), null)
      this.#hasEnded()
    }
    for await (const job of parley.messages.waitEach(this.#jobIds(signal), { signal, onMissing })) {
      const index = this.#indexOf(job.job_id)
      const [line] = this.#jobsOf([index])
      if (line) journal.settle(index, endedRow(line, job), job.created_at)
      this.#hasEnded()
    }
    signal.throwIfAborted()
  }

  #hasEnded(): void {
    this.#open -= 1
    this.#parts.onChange()
    this.#changes.notify()
  }

  #indexOf(jobId: string): number {
    const index = this.#indexByJobId.get(jobId)
    if (index === undefined) throw new Error(`job ${jobId} is not of this run`)
    return index
  }

  #jobsOf(indexes: readonly number[]): readonly InputJob[] {
    return indexes.map((index) => {
      const job = this.#byIndex.get(index)
      if (!job) throw new Error(`the journal refers to line ${index}, which does not exist`)
      return job
    })
  }

  /** Throws if the server may have forgotten the idempotency key, because the jobs could then be created twice. */
  #assertRemembered(jobs: readonly number[], atS: number): void {
    const { me, sendAgain } = this.#parts
    const rememberedS = me.idempotency_seconds ?? Math.min(KEY_LIFETIME_S, me.retention_seconds)
    if (sendAgain || Date.now() / 1000 - atS < rememberedS) return
    const [first, last] = [jobs[0] ?? 0, jobs.at(-1) ?? 0].map((index) => this.#jobsOf([index])[0]?.number)
    throw new CommandError(
      `Lines ${first} to ${last} were sent at ${new Date(atS * 1000).toISOString()}, and it is unknown whether the server received them. The server remembers batches only for ${roughly(rememberedS)}. Pass --send-again to send these lines again, which may cost twice, or --restart to start over.`,
    )
  }
}

/** Wakes all loops that wait for a change. Each loop must then check its own condition. */
class ChangeNotifier {
  #next = Promise.withResolvers<void>()

  notify(): void {
    const { resolve } = this.#next
    this.#next = Promise.withResolvers<void>()
    resolve()
  }

  next(): Promise<void> {
    return this.#next.promise
  }
}

const roughly = (seconds: number): string =>
  seconds < 7200 ? `${Math.round(seconds / 60)} minutes` : `${Math.round(seconds / 3600)} hours`
