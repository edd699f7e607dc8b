/** Creates, reads and waits for jobs. */
import { type AnswerSchema, answerSchemaOf, serializable, withCheckedAnswer } from './answer-schema.ts'
import { withTimeout } from './clock.ts'
import { type BatchOptions, createBatch } from './create-batch.ts'
import { JobFailedError, TimeoutError } from './errors.ts'
import type { CallOptions, Exchange } from './exchange.ts'
import { newIdempotencyKey } from './idempotency-key.ts'
import type {
  BatchJob,
  CompletedJob,
  CreatedJob,
  EndedJob,
  Job,
  ResponseFormat,
  SchemaFormat,
  SingleJob,
  TextFormat,
} from './job.ts'
import type { KnownLimits } from './limits.ts'
import { ReadBudget } from './read-budget.ts'
import { type WaitAllOptions, type WaitOptions, type WaitParts, waitFor, waitForAll } from './wait.ts'

/** The server's default for a job's `timeout`. */
const DEFAULT_TIMEOUT_S = 90

export interface CreateOptions extends CallOptions {
  /**
   * The same job with the same key is created and paid for once, however often this is called within 24 hours. If absent, a
   * new key is generated, so that retries of one call create one job. With null no key is sent, and the call is not retried.
   */
  readonly idempotencyKey?: string | null | undefined
}

export interface CreateAndWaitOptions extends CreateOptions {
  /** Timeout of the whole call in seconds; if absent, it waits until the job has ended. */
  readonly timeout?: number | undefined
}

export interface RetrieveOptions<T = unknown> extends CallOptions {
  /** Validates the answer and gives it a type. */
  readonly schema?: AnswerSchema<T> | undefined
}

export class Messages {
  readonly #exchange: Exchange
  readonly #limits: KnownLimits
  readonly #budget: ReadBudget

  constructor(exchange: Exchange, limits: KnownLimits) {
    this.#exchange = exchange
    this.#limits = limits
    this.#budget = new ReadBudget(exchange.clock)
  }

  /**
   * Creates a job and waits up to its `timeout` for the answer. Resolves with the job, `completed` or `failed`, or with its ID
   * and the status `timeout`. In that case the job continues on the server, and `wait` waits for it.
   */
  create(job: SingleJob<TextFormat>, options?: CreateOptions): Promise<CreatedJob<string>>
  create<T>(job: SingleJob<SchemaFormat<T>>, options?: CreateOptions): Promise<CreatedJob<T>>
  create<T = unknown>(job: SingleJob<ResponseFormat<T>>, options?: CreateOptions): Promise<CreatedJob<T>>
  async create(job: SingleJob, options: CreateOptions = {}): Promise<CreatedJob> {
    const { idempotencyKey = newIdempotencyKey(), ...call } = options
    const created = await this.#exchange.data<CreatedJob>({
      ...call,
      method: 'POST',
      path: '/api/v1/messages',
      body: JSON.stringify(serializable(job)),
      idempotencyKey,
      extraSeconds: job.timeout ?? DEFAULT_TIMEOUT_S,
    })
    return withCheckedAnswer(created, answerSchemaOf(job.response_format))
  }

  /** Creates a job and waits until it has ended, however long that takes. Throws `JobFailedError` if it failed. */
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
      return completed(await this.wait(created.job_id, { ...call, signal, schema }))
    })
  }

  /**
   * Creates any number of jobs, each with an optional callback, and resolves with their IDs in the order of the jobs. They are
   * sent in batches as large as the tier allows. Throws `BatchError` if it fails after some jobs have been created.
   */
  createBatch(jobs: readonly BatchJob[], options: BatchOptions = {}): Promise<string[]> {
    return createBatch(jobs, options, this.#exchange, this.#limits)
  }

  /** Reads the current state of a job. */
  async retrieve<T = unknown>(jobId: string, options: RetrieveOptions<T> = {}): Promise<Job<T>> {
    const { schema, ...call } = options
    const reading = this.#budget.begin()
    try {
      const job = await this.#exchange.data<Job<T>>({
        ...call,
        method: 'GET',
        path: `/api/v1/messages/${encodeURIComponent(jobId)}`,
        onHeaders: reading.learn,
      })
      return await withCheckedAnswer(job, schema)
    } finally {
      reading.end()
    }
  }

  /** Waits until a job has ended, completed or failed. Use `completed(job)` to get its answer or throw. */
  wait<T = unknown>(jobId: string, options: WaitOptions<T> = {}): Promise<EndedJob<T>> {
    return waitFor(jobId, options, this.#waitParts(options))
  }

  /** Waits for many jobs without exceeding the tier's reads per minute. Resolves with the jobs in the order of the IDs. */
  async waitAll<T = unknown>(
    jobIds: readonly string[],
    options: WaitAllOptions<T> = {},
  ): Promise<EndedJob<T>[]> {
    if (jobIds.length === 0) return []
    const sentMs = this.#exchange.clock.steadyMs()
    const { limits, reads } = await this.#limits.me(callOptionsOf(options))
    this.#budget.learn(limits.reads_per_minute, reads.remaining, reads.resets_in_seconds, sentMs)
    return waitForAll(jobIds, options, this.#waitParts(options))
  }

  #waitParts<T>(options: WaitOptions<T>): WaitParts<T> {
    const call = { ...callOptionsOf(options), schema: options.schema, maxRetries: 0 }
    return {
      read: (jobId, signal) => this.retrieve(jobId, { ...call, signal }),
      budget: this.#budget,
      clock: this.#exchange.clock,
    }
  }
}

function callOptionsOf({ signal, maxRetries, requestTimeout, onAnswer }: CallOptions): CallOptions {
  return { signal, maxRetries, requestTimeout, onAnswer }
}

/** Returns the job if it is completed; throws `JobFailedError` if it failed. */
export function completed<T>(job: EndedJob<T>): CompletedJob<T> {
  if (job.status === 'failed') throw new JobFailedError(job)
  return job
}
