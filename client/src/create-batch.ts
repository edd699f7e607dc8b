/** Creates any number of jobs, in batches as large as the tier allows. */
import { serializable } from './answer-schema.ts'
import { BatchError, PermissionError, UnexpectedResponseError } from './errors.ts'
import type { CallOptions, Exchange } from './exchange.ts'
import { newIdempotencyKey, withKey } from './idempotency-key.ts'
import type { BatchJob } from './job.ts'
import type { KnownLimits, Limits } from './limits.ts'

export interface BatchOptions extends CallOptions {
  /**
   * With the same key, the same jobs are created once, however often this is called within 24 hours. If absent, a new key is
   * generated. With null no key is sent, and failed batches are not retried.
   */
  readonly idempotencyKey?: string | null | undefined
  /** The number of jobs in a request; if absent, as many as the tier allows. */
  readonly batchSize?: number | undefined
}

/** Resolves with the IDs in the order of the jobs. Batches are sent one after the other, so that an error leaves no gap. */
export async function createBatch(
  jobs: readonly BatchJob[],
  options: BatchOptions,
  exchange: Exchange,
  limits: KnownLimits,
): Promise<string[]> {
  const { batchSize, idempotencyKey = newIdempotencyKey(), ...call } = options
  // All jobs are serialized before the first is sent, so that a job that cannot be serialized fails the whole call.
  const texts = jobs.map((job) => JSON.stringify(serializable(job)))
  const ids: string[] = []
  const create = async (batch: readonly string[]) => {
    const created = await exchange.data<{ readonly job_ids: readonly string[] }>({
      ...call,
      method: 'POST',
      path: '/api/v1/messages/batches',
      body: `[${batch.join()}]`,
      // The key depends only on the first job. If the batches are divided differently, the server rejects them instead of
      // creating jobs twice.
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
    // The key of the request is not that of the call.
    if (ids.length === 0) throw withKey(error, idempotencyKey)
    throw new BatchError(ids, idempotencyKey ?? undefined, error)
  }
  return ids
}

/**
 * Returns as many jobs from `from` on as fit, and at least one: the server's error explains the problem with a job that is too
 * large.
 */
function nextBatch(
  texts: readonly string[],
  from: number,
  limits: Limits,
  batchSize = limits.max_batch_jobs,
): readonly string[] {
  // The array has two brackets, and one comma per job.
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
