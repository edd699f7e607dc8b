/**
 * Sends the jobs of a run in batches, in order, and reads them until each has ended: a sender and some readers side by side,
 * with so many jobs between them at most.
 */
import { setTimeout as pause } from 'node:timers/promises'
import {
  type BatchJob,
  InvalidRequestError,
  type Me,
  NotFoundError,
  type Parley,
  PermissionError,
} from '../../../client/src/index.ts'
import { EXIT } from '../call/exit-code.ts'
import { CommandError } from '../command-error.ts'
import { ChangeNotifier } from './change-notifier.ts'
import type { Journal } from './journal.ts'
import { endedRow, expiredRow, invalidRow } from './row.ts'

/** Jobs that are read in turn. The oldest first, as the server takes them, so that most have ended when they are looked at. */
const READERS = 64
/** With pauses of up to eight seconds: as long as a wait bears an outage. */
const RETRIES = 60
/** How long a server remembers a key at most. */
const REMEMBERED_S = 86_400

/** A line that is to be a job. */
export interface ToSend {
  readonly index: number
  readonly number: number
  readonly customId: string | undefined
  job(): BatchJob
}

export interface RunParts {
  readonly parley: Parley
  readonly me: Me
  readonly journal: Journal
  readonly jobs: readonly ToSend[]
  /** Jobs at the server at most. */
  readonly concurrency: number
  /** Whether a job that the server refuses ends the run, or only itself. */
  readonly skipInvalid: boolean
  /** Whether batches are sent again that the server may have, and may not remember. */
  readonly sendAgain: boolean
  readonly onChange: () => void
}

export class BatchRun {
  readonly #parts: RunParts
  readonly #byIndex: ReadonlyMap<number, ToSend>
  readonly #changes = new ChangeNotifier()
  #limits: Me['limits']
  /** At the server, in the order in which they were sent; the first so many are in readers' hands or have ended. */
  readonly #line: number[] = []
  #taken = 0
  /** At the server, without a row yet. */
  #open = 0
  /** The jobs before it are at the server, have ended, or are in the batch under way. */
  #reached = 0
  #allSent = false

  constructor(parts: RunParts) {
    this.#parts = parts
    this.#limits = parts.me.limits
    this.#byIndex = new Map(parts.jobs.map((job) => [job.index, job]))
  }

  /** Resolves when every job has its row in the journal. The first error ends it, and it can be gone on with. */
  async run(outer: AbortSignal): Promise<void> {
    const controller = new AbortController()
    const signal = AbortSignal.any([outer, controller.signal])
    signal.addEventListener('abort', () => this.#changes.tell(), { once: true })
    for (const { index } of this.#parts.jobs) {
      if (this.#parts.journal.jobIds.has(index) && !this.#parts.journal.hasEnded(index)) this.#enqueue(index)
    }
    const work = [this.#sendAll(signal), this.#readAll(signal)]
    try {
      await Promise.all(work)
    } catch (error) {
      controller.abort()
      await Promise.allSettled(work)
      throw error
    }
  }

  async #sendAll(signal: AbortSignal): Promise<void> {
    const { journal } = this.#parts
    for (const { jobs, atS } of journal.doubts) {
      this.#assertRemembered(jobs, atS)
      await this.#send(this.#jobsOf(jobs), signal)
    }
    for (let next = this.#nextBatch(); next.length > 0; next = this.#nextBatch()) {
      await this.#room(next.length, signal)
      await this.#send(next, signal)
    }
    this.#allSent = true
    this.#changes.tell()
  }

  async #room(jobs: number, signal: AbortSignal): Promise<void> {
    while (this.#open > 0 && this.#open + jobs > this.#parts.concurrency) {
      await this.#changes.next()
      signal.throwIfAborted()
    }
  }

  /** As many as the tier allows in one request, and as fit in its bytes. */
  #nextBatch(): readonly ToSend[] {
    const { journal, jobs, concurrency } = this.#parts
    const most = Math.min(this.#limits.max_batch_jobs, concurrency)
    const batch: ToSend[] = []
    let bytes = 2
    for (; this.#reached < jobs.length && batch.length < most; this.#reached++) {
      const job = jobs[this.#reached]
      if (!job || journal.jobIds.has(job.index) || journal.hasEnded(job.index)) continue
      bytes += Buffer.byteLength(JSON.stringify(job.job())) + 1
      if (bytes > this.#limits.batch_body_bytes && batch.length > 0) break
      batch.push(job)
    }
    return batch
  }

  async #send(batch: readonly ToSend[], signal: AbortSignal): Promise<void> {
    const { parley, journal, onChange } = this.#parts
    const indexes = batch.map(({ index }) => index)
    journal.sending(indexes, Math.floor(Date.now() / 1000))
    try {
      const jobIds = await parley.messages.createBatch(
        batch.map((one) => one.job()),
        {
          // The same after a crash, so that the server finds what it has.
          idempotencyKey: `${journal.run}.${indexes[0]}`,
          batchSize: batch.length,
          maxRetries: RETRIES,
          signal,
        },
      )
      journal.sent(indexes, jobIds)
    } catch (error) {
      if (!(error instanceof InvalidRequestError || error instanceof PermissionError)) throw error
      journal.refused(indexes)
      await this.#goOnAfter(error, batch, signal)
      this.#reached = 0
      return
    }
    for (const index of indexes) this.#enqueue(index)
    onChange()
  }

  /** Returns where what the server refused can be sent otherwise; throws what cannot. */
  async #goOnAfter(
    error: InvalidRequestError | PermissionError,
    batch: readonly ToSend[],
    signal: AbortSignal,
  ): Promise<void> {
    const { parley, journal, skipInvalid, onChange } = this.#parts
    if (error instanceof PermissionError) {
      // The tier may have changed.
      this.#limits = (await parley.me({ signal })).limits
      if (batch.length > this.#limits.max_batch_jobs) return
      throw error
    }
    const [, place, reason] = /^jobs\[(\d+)\]\.?(.*)$/s.exec(error.details ?? '') ?? []
    const job = place === undefined ? undefined : batch[Number(place)]
    if (!job || reason === undefined) throw error
    if (!skipInvalid) {
      throw new CommandError(
        `The server refuses line ${job.number}: ${reason}. --skip-invalid goes on without it.`,
        EXIT.other,
      )
    }
    journal.settle(job.index, invalidRow(job, reason), null)
    onChange()
  }

  #enqueue(index: number): void {
    this.#line.push(index)
    this.#open += 1
    this.#changes.tell()
  }

  /** The oldest that nobody reads yet; null when there will be none. */
  async #take(signal: AbortSignal): Promise<number | null> {
    for (;;) {
      signal.throwIfAborted()
      const index = this.#line[this.#taken]
      if (index !== undefined) {
        this.#taken += 1
        return index
      }
      if (this.#allSent) return null
      await this.#changes.next()
    }
  }

  async #readAll(signal: AbortSignal): Promise<void> {
    const first = await this.#take(signal)
    if (first === null) return
    await this.#learnReadsLeft(first, signal)
    await Promise.all([
      this.#readOn(first, signal),
      ...Array.from({ length: READERS - 1 }, () => this.#readOn(null, signal)),
    ])
  }

  /** The client spaces its reads by what the server says is left with each; so there is one before there are many. */
  async #learnReadsLeft(index: number, signal: AbortSignal): Promise<void> {
    const { parley, journal } = this.#parts
    const { reads } = await parley.me({ signal, maxRetries: RETRIES })
    if (reads.remaining === 0) await pause(reads.resets_in_seconds * 1000, undefined, { signal })
    try {
      await parley.messages.retrieve(journal.jobIds.get(index) ?? '', { signal, maxRetries: RETRIES })
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error
    }
  }

  async #readOn(first: number | null, signal: AbortSignal): Promise<void> {
    for (let index = first ?? (await this.#take(signal)); index !== null; index = await this.#take(signal)) {
      await this.#settle(index, signal)
      this.#open -= 1
      this.#parts.onChange()
      this.#changes.tell()
    }
  }

  async #settle(index: number, signal: AbortSignal): Promise<void> {
    const { parley, journal } = this.#parts
    const [about] = this.#jobsOf([index])
    const jobId = journal.jobIds.get(index)
    if (!about || jobId === undefined) throw new Error(`line ${index} is no job`)
    try {
      const job = await parley.messages.wait(jobId, { signal })
      signal.throwIfAborted()
      journal.settle(index, endedRow(about, job), job.created_at)
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error
      journal.settle(index, expiredRow(about, jobId, error.message), null)
    }
  }

  #jobsOf(indexes: readonly number[]): readonly ToSend[] {
    return indexes.map((index) => {
      const job = this.#byIndex.get(index)
      if (!job) throw new Error(`the journal tells of line ${index}, which is none`)
      return job
    })
  }

  /** A batch that a crash cut off is safe to send again for as long as the server remembers its key. */
  #assertRemembered(jobs: readonly number[], atS: number): void {
    const { me, sendAgain } = this.#parts
    const rememberedS = Math.min(REMEMBERED_S, me.retention_seconds)
    if (sendAgain || Date.now() / 1000 - atS < rememberedS) return
    const [first, last] = [jobs[0] ?? 0, jobs.at(-1) ?? 0].map((index) => this.#jobsOf([index])[0]?.number)
    throw new CommandError(
      `Lines ${first} to ${last} were sent on ${new Date(atS * 1000).toISOString()}, and whether they arrived is not known. The server remembers that for ${Math.round(rememberedS / 3600)} hours only. --send-again sends them again, and they may be paid twice; --restart begins anew.`,
    )
  }
}
