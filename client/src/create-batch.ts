/** Creates any number of jobs, in batches of the size that the tier allows. */
import { serializable } from './answer-schema.ts'
import { BatchError, PermissionError, UnexpectedResponseError } from './errors.ts'
import type { CallOptions, Exchange } from './exchange.ts'
import { newIdempotencyKey, withKey } from './idempotency-key.ts'
import type { BatchJob } from './job.ts'
import type { KnownLimits, Limits } from './limits.ts'

export interface BatchOptions extends CallOptions {
  /**
   * Calls with the same key and the same jobs create these jobs only once, by default within 24 hours (`idempotency_seconds` of
   * `me`). If absent, a key is generated. With null, no key is sent, and failed batches are not retried.
   */
  readonly idempotencyKey?: string | null | undefined
  /** The number of jobs per request. If absent, each request has as many jobs as the tier allows. */
  readonly batchSize?: number | undefined
}

/**
 * Resolves with the IDs in the order of the jobs. Batches are sent one after the other, so that after an error no jobs are
 * missing between created ones.
 */
export async function createBatch(
  jobs: readonly BatchJob[],
  options: BatchOptions,
  exchange: Exchange,
  limits: KnownLimits,
): Promise<string[]> {
  const { batchSize, idempotencyKey = newIdempotencyKey(), ...call } = options
  // A job that cannot be serialized must make the call fail before any job is sent.
  const texts = jobs.map((job) => JSON.stringify(serializable(job)))
  const ids: string[] = []
  const create = async (batch: readonly string[]) => {
    const created = await exchange.data<{ readonly job_ids: readonly string[] }>({
      ...call,
      method: 'POST',
      path: '/api/v1/messages/batches',
      body: `[${batch.join()}]`,
      // The key of a batch depends only on its first job. If a repeated call divides the jobs differently, the server rejects
      // the batch instead of creating jobs twice.
      idempotencyKey: idempotencyKey && `${idempotencyKey}.${ids.length}`,
    })
    if (created.job_ids?.length !== batch.length) {
      throw new UnexpectedResponseError(
        `${batch.length} jobs were sent, but ${created.job_ids?.length ?? 'no'} IDs were returned`,
      )
    }
    ids.push(...created.job_ids)
  }
  try {
    while (ids.length < texts.length) {
      const known = await limits.ofTier(call)
      const batch = nextBatch(texts, ids.length, known, batchSize)
      try {
        await create(batch)
      } catch (error) {
        const tooLong = error instanceof PermissionError && batchSize === undefined
        if (!tooLong || batch.length <= (await limits.me(call)).data.limits.max_batch_jobs) throw error
      }
    }
  } catch (error) {
    // The error must have the key of the whole call, because a repeated call needs that key.
    if (ids.length === 0) throw withKey(error, idempotencyKey)
    throw new BatchError(ids, idempotencyKey ?? undefined, error)
  }
  return ids
}

/**
 * Returns as many jobs as fit into one request, beginning with the job at `from`. The batch has at least one job: if a single
 * job is too large, the server's error explains it.
 */
function nextBatch(
  texts: readonly string[],
  from: number,
  limits: Limits,
  batchSize = limits.max_batch_jobs,
): readonly string[] {
  // Two brackets, and at most one comma per job.
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
