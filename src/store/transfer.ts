/** Transfers the contents of a database to another, empty one. */

import { DatabaseProblem } from './database-problem.ts'
import { type Expiry, expiresAtMs } from './expiry.ts'
import type { Batches, TransferredJob, TransferSource, TransferTarget } from './transfer-contract.ts'

export interface TransferCounts {
  accounts: number
  keys: number
  waiting: number
  /** How many of those were assigned to a server. */
  held: number
  ended: number
  /** Finished jobs that can no longer be read: they are not transferred. */
  expired: number
  callbacksOwed: number
  /** Delivered, or failed permanently. */
  callbacksDone: number
  cachedResponses: number
  idempotencyKeys: number
  /** Sums of an account, a month and a model. */
  usage: number
  auditEntries: number
}

/**
 * All or nothing: if it rejects, the target is unchanged. Does not close either database.
 * @param onProgress called after each batch
 */
export async function transferDatabase(
  source: TransferSource,
  target: TransferTarget,
  expiry: Expiry,
  onProgress: (counts: Readonly<TransferCounts>) => void,
): Promise<Readonly<TransferCounts>> {
  const counts = noCounts()
  let kind = ''
  const each = async <T>(what: string, batches: Batches<T>, add: (batch: readonly T[]) => Promise<void>) => {
    kind = what
    for await (const batch of readAhead(batches)) {
      await add(batch)
      onProgress(counts)
    }
  }
  try {
    await each('accounts', source.accounts(), async (accounts) => {
      await target.addAccounts(accounts)
      counts.accounts += accounts.length
    })
    await each('keys', source.keys(), async (keys) => {
      await target.addKeys(keys)
      counts.keys += keys.length
    })
    await each('jobs', source.jobs(), async (jobs) => {
      const readable = jobs.filter((job) => !hasExpired(job, expiry))
      counts.expired += jobs.length - readable.length
      await target.addJobs(readable)
      for (const job of readable) count(counts, job)
    })
    await each('cached responses', source.cachedResponses(expiry.nowMs), async (responses) => {
      counts.cachedResponses += await target.addCachedResponses(responses)
    })
    await each('idempotency keys', source.idempotencyKeys(expiry.nowMs), async (keys) => {
      await target.addIdempotencyKeys(keys)
      counts.idempotencyKeys += keys.length
    })
    await each('usage', source.usage(), async (usage) => {
      await target.addUsage(usage)
      counts.usage += usage.length
    })
    await each('the audit log', source.auditEntries(), async (entries) => {
      await target.addAuditEntries(entries)
      counts.auditEntries += entries.length
    })
    kind = 'the end'
    await target.commit(source.turn)
  } catch (error) {
    if (!(error instanceof DatabaseProblem)) throw error
    const done = counts.waiting + counts.ended
    throw new DatabaseProblem(
      `The copy stopped at ${kind}, after ${done} jobs: ${error.message} Nothing of it stays in the target, and the source is unchanged. Fix the cause and run it again.`,
      { cause: error },
    )
  }
  return counts
}

function noCounts(): TransferCounts {
  return {
    accounts: 0,
    keys: 0,
    waiting: 0,
    held: 0,
    ended: 0,
    expired: 0,
    callbacksOwed: 0,
    callbacksDone: 0,
    cachedResponses: 0,
    idempotencyKeys: 0,
    usage: 0,
    auditEntries: 0,
  }
}

function count(counts: TransferCounts, { state }: TransferredJob): void {
  if (state.kind === 'waits') {
    counts.waiting += 1
    if (state.wasHeld) counts.held += 1
    return
  }
  counts.ended += 1
  if (state.callback === null) return
  if (state.callback.due_at_ms === null) counts.callbacksDone += 1
  else counts.callbacksOwed += 1
}

function hasExpired({ state, cacheTtlS }: TransferredJob, { nowMs, retentionMs }: Expiry): boolean {
  if (state.kind === 'waits' || (state.callback && state.callback.due_at_ms !== null)) return false
  return expiresAtMs(state.settledAtMs, cacheTtlS, retentionMs) <= nowMs
}

/** The next batch is read while the previous one is written. */
async function* readAhead<T>(batches: Batches<T>): AsyncGenerator<readonly T[]> {
  const reader = batches[Symbol.asyncIterator]()
  const read = () => {
    const next = reader.next()
    // It is awaited below, unless writing fails first.
    next.catch(() => {})
    return next
  }
  let next = read()
  try {
    for (let batch = await next; !batch.done; batch = await next) {
      next = read()
      yield batch.value
    }
  } finally {
    await next.catch(() => {})
    await reader.return?.()
  }
}
