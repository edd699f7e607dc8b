/** Creates, reads, lists, cancels and deletes jobs, and waits for them. */
import { type AnswerSchema, answerSchemaOf, serializable, withCheckedAnswer } from './answer-schema.ts'
import { ApiPromise, type WithResponse } from './api-promise.ts'
import { withTimeout } from './clock.ts'
import { type BatchOptions, createBatch } from './create-batch.ts'
import { JobFailedError, TimeoutError } from './errors.ts'
import type { CallOptions, Exchange } from './exchange.ts'
import { newIdempotencyKey, withKey } from './idempotency-key.ts'
import type {
  BatchJob,
  CompletedJob,
  CreatedJob,
  DeletedJob,
  EndedJob,
  FailedJob,
  Job,
  ResponseFormat,
  SchemaFormat,
  SingleJob,
  TextFormat,
} from './job.ts'
import { type JobList, type ListOptions, listJobs } from './job-list.ts'
import { JobsRoute } from './jobs-route.ts'
import type { KnownLimits } from './limits.ts'
import type { JobIds } from './open-jobs.ts'
import { ReadBudget } from './read-budget.ts'
import {
  type WaitAllOptions,
  type WaitEachOptions,
  type WaitOptions,
  type WaitParts,
  waitForAll,
  waitForEach,
  waitForOne,
} from './wait.ts'

/** The server has this default for a job's `timeout`, in seconds. */
const DEFAULT_TIMEOUT_S = 90

export interface CreateOptions extends CallOptions {
  /**
   * Calls with the same key create and pay for the same job only once, by default within 24 hours (`idempotency_seconds` of
   * `me`). If absent, each call generates a key, so that its retries create one job. With null, no key is sent, and the call is
   * not retried.
   */
  readonly idempotencyKey?: string | null | undefined
}

export interface CreateAndWaitOptions extends CreateOptions {
  /** Limits the whole call to this many seconds. If absent, the call waits until the job has finished. */
  readonly timeout?: number | undefined
}

export interface RetrieveOptions<T = unknown> extends CallOptions {
  /** Validates the answer, and determines its type. */
  readonly schema?: AnswerSchema<T> | undefined
}

export interface DeleteOptions extends CallOptions {
  /** Deletes the job even if its callback is still to be delivered. The callback is then not sent. */
  readonly dropCallback?: boolean | undefined
}

export class Messages {
  readonly #exchange: Exchange
  readonly #limits: KnownLimits
  readonly #budget: ReadBudget
  readonly #jobsRoute: JobsRoute

  constructor(exchange: Exchange, limits: KnownLimits) {
    this.#exchange = exchange
    this.#limits = limits
    this.#budget = new ReadBudget(exchange.clock)
    this.#jobsRoute = new JobsRoute(exchange, this.#budget)
  }

  /**
   * Creates a job, and waits up to the job's `timeout` for the answer. Resolves with the job, which is `completed` or `failed`.
   * If the job has not finished in time, resolves with its ID and the status `timeout`. The job then continues on the server,
   * and you can `wait` for it.
   */
  create(job: SingleJob<TextFormat>, options?: CreateOptions): ApiPromise<CreatedJob<string>>
  create<T>(job: SingleJob<SchemaFormat<T>>, options?: CreateOptions): ApiPromise<CreatedJob<T>>
  create<T = unknown>(job: SingleJob<ResponseFormat<T>>, options?: CreateOptions): ApiPromise<CreatedJob<T>>
  create(job: SingleJob, options: CreateOptions = {}): ApiPromise<CreatedJob> {
    return new ApiPromise(this.#create(job, options))
  }

  async #create(job: SingleJob, options: CreateOptions): Promise<WithResponse<CreatedJob>> {
    const { idempotencyKey = newIdempotencyKey(), ...call } = options
    const created = await this.#exchange.send<CreatedJob>({
      ...call,
      method: 'POST',
      path: '/api/v1/messages',
      body: JSON.stringify(serializable(job)),
      field: 'job_id',
      idempotencyKey,
      extraSeconds: job.timeout ?? DEFAULT_TIMEOUT_S,
    })
    return { ...created, data: await withCheckedAnswer(created.data, answerSchemaOf(job.response_format)) }
  }

  /** Creates a job, and waits until it has finished, however long that takes. Throws `JobFailedError` if the job fails. */
  createAndWait(job: SingleJob<TextFormat>, options?: CreateAndWaitOptions): Promise<CompletedJob<string>>
  createAndWait<T>(job: SingleJob<SchemaFormat<T>>, options?: CreateAndWaitOptions): Promise<CompletedJob<T>>
  createAndWait<T = unknown>(
    job: SingleJob<ResponseFormat<T>>,
    options?: CreateAndWaitOptions,
  ): Promise<CompletedJob<T>>
  async createAndWait(job: SingleJob, options: CreateAndWaitOptions = {}): Promise<CompletedJob> {
    const { idempotencyKey = newIdempotencyKey(), timeout = Number.POSITIVE_INFINITY, ...call } = options
    const timeoutError = () => {
      const message = `the job did not finish within ${timeout} s; it continues on the server, and the same call with this idempotencyKey waits for it again`
      return new TimeoutError(message, { idempotencyKey: idempotencyKey ?? undefined })
    }
    return withTimeout(timeout, timeoutError, this.#exchange.clock, options.signal, async (signal) => {
      const created = await this.create(job, { ...call, signal, idempotencyKey })
      if (created.status !== 'timeout') return completed(created)
      const schema = answerSchemaOf(job.response_format)
      const ended = await this.wait(created.job_id, { ...call, signal, schema }).catch((error: unknown) => {
        throw withKey(error, idempotencyKey)
      })
      return completed(ended)
    })
  }

  /**
   * Creates any number of jobs, each with an optional callback. Resolves with their IDs in the order of the jobs. The jobs are
   * sent in batches of the size that the tier allows. Throws `BatchError` if it fails after some jobs have been created.
   */
  createBatch(jobs: readonly BatchJob[], options: BatchOptions = {}): Promise<string[]> {
    return createBatch(jobs, options, this.#exchange, this.#limits)
  }

  /** Reads the current state of a job. */
  retrieve<T = unknown>(jobId: string, options: RetrieveOptions<T> = {}): ApiPromise<Job<T>> {
    return new ApiPromise(this.#retrieve(jobId, options))
  }

  async #retrieve<T>(jobId: string, options: RetrieveOptions<T>): Promise<WithResponse<Job<T>>> {
    const { schema, ...call } = options
    const reading = this.#budget.begin()
    try {
      const read = await this.#exchange.send<Job<T>>({
        ...call,
        method: 'GET',
        path: pathOf(jobId),
        onHeaders: reading.learn,
      })
      return { ...read, data: await withCheckedAnswer(read.data, schema) }
    } finally {
      reading.end()
    }
  }

  /**
   * Lists the account's jobs, newest first. `await` returns a page, `for await` yields all jobs. Each page counts as ten of the
   * tier's reads per minute.
   */
  list(options: ListOptions = {}): JobList {
    return listJobs(this.#exchange, options)
  }

  /**
   * Cancels an unfinished job. Resolves with the job, which has failed with the code `cancelled`, even if it was already
   * cancelled. Throws `ConflictError` if the job has completed, or failed for another reason. The callback of the job is sent,
   * and its usage counts.
   */
  cancel(jobId: string, options: CallOptions = {}): ApiPromise<FailedJob> {
    const call = { ...options, method: 'POST', path: `${pathOf(jobId)}/cancel`, isIdempotent: true } as const
    return new ApiPromise(this.#exchange.send<FailedJob>(call))
  }

  /**
   * Deletes a finished job: its messages, its answer, its cached response and its callback. Throws `ConflictError` if the job
   * has not finished, or if its callback is still to be delivered and `dropCallback` is not set.
   */
  delete(jobId: string, options: DeleteOptions = {}): ApiPromise<DeletedJob> {
    const { dropCallback, ...call } = options
    const deleted = this.#exchange.send<DeletedJob>({
      ...call,
      method: 'DELETE',
      path: `${pathOf(jobId)}${dropCallback ? '?drop_callback=true' : ''}`,
      isIdempotent: true,
      dataIfGone: { job_id: jobId.toLowerCase(), deleted: true } satisfies DeletedJob,
    })
    return new ApiPromise(deleted)
  }

  /** Waits until a job has completed or failed. `completed(job)` then returns the job or throws its error. */
  wait<T = unknown>(jobId: string, options: WaitOptions<T> = {}): Promise<EndedJob<T>> {
    return waitForOne(jobId, options, this.#waitParts(options))
  }

  /** Waits for many jobs, without exceeding the tier's reads per minute. Resolves with the jobs in the order of the IDs. */
  async waitAll<T = unknown>(
    jobIds: readonly string[],
    options: WaitAllOptions<T> = {},
  ): Promise<EndedJob<T>[]> {
    return jobIds.length === 0 ? [] : waitForAll(jobIds, options, this.#waitParts(options))
  }

  /**
   * Yields jobs in the order in which they finish, each soon after it has finished. To end the wait, leave the loop.
   *
   * ```ts
   * for await (const job of parley.messages.waitEach(ids)) console.log(job.job_id, job.status)
   * ```
   *
   * @param jobIds a list, or an async iterable, for example of jobs that are still being created
   */
  waitEach<T = unknown>(
    jobIds: JobIds,
    options: WaitEachOptions<T> = {},
  ): AsyncGenerator<EndedJob<T>, void, undefined> {
    return waitForEach(jobIds, options, this.#waitParts(options))
  }

  #waitParts(options: CallOptions): WaitParts {
    const call = { ...callOptionsOf(options), maxRetries: 0 }
    const { clock, logger } = this.#exchange
    return {
      read: async (jobId, signal) => (await this.#retrieve(jobId, { ...call, signal })).data,
      learnBudget: async (signal) => {
        const sentMs = clock.steadyMs()
        const { limits, reads } = (await this.#limits.me({ ...callOptionsOf(options), signal })).data
        this.#budget.learn(limits.reads_per_minute, reads.remaining, reads.resets_in_seconds, sentMs)
      },
      route: this.#jobsRoute,
      call,
      budget: this.#budget,
      clock,
      logger,
    }
  }
}

function pathOf(jobId: string): string {
  return `/api/v1/messages/${encodeURIComponent(jobId)}`
}

function callOptionsOf(options: CallOptions): CallOptions {
  const { signal, headers, maxRetries, requestTimeout, onAnswer, include } = options
  return { signal, headers, maxRetries, requestTimeout, onAnswer, include }
}

/** Returns the job if it has completed. Throws `JobFailedError` if it has failed. */
export function completed<T>(job: EndedJob<T>): CompletedJob<T> {
  if (job.status === 'failed') throw new JobFailedError(job)
  return job
}
