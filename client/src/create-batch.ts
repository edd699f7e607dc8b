/** Creates any number of jobs, in batches as large as the tier allows. */
import { toSend } from './answer-schema.ts'
import { BatchError, PermissionError, UnexpectedResponseError } from './errors.ts'
import type { CallOptions, Exchange } from './exchange.ts'
import { newIdempotencyKey } from './idempotency-key.ts'
import type { BatchJob } from './job.ts'
import type { KnownLimits, Limits } from './limits.ts'

export interface BatchOptions extends CallOptions {
  /**
   * The same jobs with the same key are created once, however often this is called within 24 hours. A new key if absent;
   * null sends none, and then no batch is tried again.
   */
  readonly idempotencyKey?: string | null | undefined
  /** Jobs in one request; as many as the tier allows if absent. */
  readonly batchSize?: number | undefined
}

/** Resolves with the ids in the order of the jobs. One batch after the other, so that an error leaves no gap. */
export async function createBatch(
  jobs: readonly BatchJob[],
  options: BatchOptions,
  exchange: Exchange,
  limits: KnownLimits,
): Promise<string[]> {
  const { batchSize, idempotencyKey = newIdempotencyKey(), ...call } = options
  // All of them before the first is created, so that a job that cannot be written as JSON leaves nothing half done.
  const texts = jobs.map((job) => JSON.stringify(toSend(job)))
  const ids: string[] = []
  const create = async (batch: readonly string[]) => {
    const made = await exchange.data<{ readonly job_ids: readonly string[] }>({
      ...call,
      method: 'POST',
      path: '/api/v1/messages/batches',
      body: `[${batch.join()}]`,
      // By its first job and nothing else: cut otherwise, the same jobs are refused and never made twice.
      idempotencyKey: idempotencyKey && `${idempotencyKey}.${ids.length}`,
    })
    if (made.job_ids?.length !== batch.length) {
      throw new UnexpectedResponseError(
        `${batch.length} jobs were sent, and other than so many ids came back`,
      )
    }
    ids.push(...made.job_ids)
  }
  try {
    while (ids.length < texts.length) {
      const known = await limits.ofTier(call)
      const batch = nextBatch(texts, ids.length, known, batchSize)
      try {
        await create(batch)
      } catch (error) {
        const tooLong = error instanceof PermissionError && batchSize === undefined
        if (!tooLong || batch.length <= (await limits.me(call)).limits.max_batch_jobs) throw error
      }
    }
  } catch (error) {
    if (ids.length === 0) throw error
    throw new BatchError(ids, idempotencyKey ?? undefined, error)
  }
  return ids
}

/** From this job on as many as fit, and at least that one: the server says what is wrong with one that is too large. */
function nextBatch(
  texts: readonly string[],
  from: number,
  limits: Limits,
  batchSize = limits.max_batch_jobs,
): readonly string[] {
  // The two brackets, and a comma for each job.
  let bytes = 2
  let to = from
  for (; to < texts.length && to - from < batchSize; to++) {
    bytes += byteLength(texts[to] ?? '') + 1
    if (bytes > limits.batch_body_bytes && to > from) break
  }
  return texts.slice(from, Math.max(to, from + 1))
}

const encoder = new TextEncoder()

function byteLength(text: string): number {
  return encoder.encode(text).length
}
