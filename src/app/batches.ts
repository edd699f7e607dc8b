/** Creates the runner of batches from the settings. */
import { randomBytes } from 'node:crypto'
import { BatchRunner } from '../batches/batch-runner.ts'
import { LineStarts } from '../batches/line-starts.ts'
import { wholeMs } from '../clock.ts'
import type { CpuPool } from '../cpu-pool/cpu-pool.ts'
import { TaskFailed } from '../cpu-pool/pool-thread.ts'
import { jobIdMaker } from '../job/job-id.ts'
import { Stop } from '../job/stop.ts'
import type { Tiers } from '../job/tier.ts'
import type { Cancellation } from '../queue/cancellation.ts'
import type { CountElement, JobCreator } from '../queue/job-creator.ts'
import { errorFields } from '../telemetry/log.ts'
import { countConversation } from '../tokens/token-counter.ts'
import { BatchLines, type BatchLinesOptions } from '../v1/batch-lines.ts'
import type { EngineParts } from './engine-parts.ts'
import { partLimits } from './http.ts'

export interface BatchParts
  extends Pick<EngineParts, 'settings' | 'store' | 'node' | 'clock' | 'log' | 'metrics' | 'pool' | 'prices'> {
  readonly creator: JobCreator
  readonly tiers: Tiers
  readonly cancellation: Pick<Cancellation, 'cancelled'>
}

/** Counts the tokens of jobs that no HTTP request creates, those of batches and reruns, on the threads of the CPU pool. */
export function tokenCounter(pool: Pick<CpuPool, 'run'>): (account: string) => CountElement {
  return (account) => async (element, limit) => {
    const count = await countConversation(element, limit, (jsonTexts, enough) =>
      pool.run('count tokens', { jsonTexts, enough }, { account, weight: 1 }, new Stop()),
    )
    if (count === null) throw new Error('the count of tokens was stopped')
    return count
  }
}

/** Reads long lines of batches on the threads of the CPU pool. */
export function lineReader(pool: Pick<CpuPool, 'run'>): BatchLinesOptions['readLarge'] {
  return async (line, account) => {
    const reading = pool.run('read batch line', line, { account, weight: 1 }, new Stop())
    const read = await reading.catch((error: unknown) => {
      // The line counts as wrong. If the step were retried, one thread after another would run out of memory.
      if (error instanceof TaskFailed && error.outOfMemory) return TAKES_TOO_MUCH_MEMORY
      throw error
    })
    if (read === null) throw new Error('the reading of a line was stopped')
    return read
  }
}

const TAKES_TOO_MUCH_MEMORY = {
  code: 'line_too_long',
  message: 'Parsing the line needs more memory than this server allows for one line (cpu.thread_heap_mb).',
  param: null,
}

export function createBatchRunner(parts: BatchParts): BatchRunner {
  const { settings, store, node, clock, log, metrics, pool, creator, tiers, prices, cancellation } = parts
  return new BatchRunner({
    store,
    node,
    clock,
    format: new BatchLines({
      store,
      limits: partLimits(settings),
      maxDepth: settings.limits.json_depth,
      usesCache: (model) => settings.models[model]?.v1_cache === true,
      readLarge: lineReader(pool),
    }),
    starts: new LineStarts({ store, creator, tiers, countTokens: tokenCounter(pool) }),
    makeId: jobIdMaker(clock, (bytes) => randomBytes(bytes).toString('hex')),
    maxLineBytes: settings.limits.body_bytes,
    maxLinesOf: (tier) => tiers.of(tier).maxBatchLines,
    retentionMs: wholeMs(settings.v1.file_retention_seconds),
    onAdvanced: (advance) => metrics.batchAdvanced(advance),
    ...(prices && { inputPrices: () => prices()?.ofInput }),
    onCancelled: (jobId) => cancellation.cancelled(jobId),
    // While a node runs no batch, it looks three times per lease for batches of crashed nodes.
    idleClaimMs: wholeMs(settings.jobs.lease_seconds) / 3,
    onError: (error) => log.warn(errorFields(error), 'a step of a batch failed; retrying'),
  })
}
