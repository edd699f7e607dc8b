/** Copies what one database holds into another that holds nothing. */

import { DatabaseProblem } from './database-problem.ts'
import { type Expiry, expiresAtMs } from './expiry.ts'
import type { Batches, TransferredJob, TransferSource, TransferTarget } from './transfer-contract.ts'

export interface CopyCounts {
  accounts: number
  keys: number
  waiting: number
  /** Of those that wait, how many a server held. */
  held: number
  ended: number
  /** Ended jobs that nobody can read any more: they stay behind. */
  expired: number
  callbacksOwed: number
  /** Delivered, or failed for good. */
  callbacksDone: number
  keptAnswers: number
  idempotencyKeys: number
  /** Sums of an account, a month and a model. */
  usage: number
  /** Entries of the audit log. */
  acts: number
}

/**
 * All or nothing: when it rejects, the target is as it was. Neither database is closed.
 * @param onProgress told after each batch
 */
export async function transferDatabase(
  source: TransferSource,
  target: TransferTarget,
  expiry: Expiry,
  onProgress: (counts: Readonly<CopyCounts>) => void,
): Promise<Readonly<CopyCounts>> {
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
    await each('kept answers', source.cachedResponses(expiry.nowMs), async (answers) => {
      counts.keptAnswers += await target.addCachedResponses(answers)
    })
    await each('idempotency keys', source.idempotencyKeys(expiry.nowMs), async (keys) => {
      await target.addIdempotencyKeys(keys)
      counts.idempotencyKeys += keys.length
    })
    await each('usage', source.usage(), async (usage) => {
      await target.addUsage(usage)
      counts.usage += usage.length
    })
    await each('the audit log', source.auditEntries(), async (acts) => {
      await target.addAuditEntries(acts)
      counts.acts += acts.length
    })
    kind = 'the end'
    await target.commit(source.turn)
  } catch (error) {
    if (!(error instanceof DatabaseProblem)) throw error
    const done = counts.waiting + counts.ended
    throw new DatabaseProblem(
      `The copy stopped at ${kind}, after ${done} jobs: ${error.message} Nothing of it stays in the target, and the source is unchanged. Mend the cause and run it again.`,
      { cause: error },
    )
  }
  return counts
}

function noCounts(): CopyCounts {
  return {
    accounts: 0,
    keys: 0,
    waiting: 0,
    held: 0,
    ended: 0,
    expired: 0,
    callbacksOwed: 0,
    callbacksDone: 0,
    keptAnswers: 0,
    idempotencyKeys: 0,
    usage: 0,
    acts: 0,
  }
}

function count(counts: CopyCounts, { state }: TransferredJob): void {
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

/** The next batch is read while the one before is written. */
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
