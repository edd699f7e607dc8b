/**
 * Implements leases on SQLite, and returns jobs to the queue. Only the process that has locked the file can serve it, so the
 * lock is the lease. A restart proves that the previous process has ended, so every crash is confirmed at once and none is ever
 * reverted.
 */
import type { Claim } from '../node-store.ts'
import { numberOf, textOf } from '../rows.ts'
import type { WaitingRelease } from '../store.ts'
import { headTurn } from './fair-order.ts'
import type { ServedFile } from './open-file.ts'
import { read, write } from './operation.ts'

export const nodeOperations = {
  /** A process without the lock could not run this, so the lease is always valid. */
  renew: read((_file: ServedFile, _node: string): boolean => true),

  claimsOf: read((file: ServedFile, node: string): Claim[] =>
    file
      .prepare(CLAIMS)
      .all(node)
      .map((row) => ({ jobId: textOf(row, 'id'), attempt: numberOf(row, 'attempt') })),
  ),

  leave: read((_file: ServedFile, _node: string): void => {}),

  revertCrashes: read((_file: ServedFile): number => 0),

  absentNodes: read((_file: ServedFile): string[] => []),

  confirmCrashes: read((_file: ServedFile, _nodes: readonly string[], _absentMs: number): void => {}),

  release: write((file: ServedFile, node: string, claims: readonly Claim[]): void => {
    for (const { jobId, attempt } of claims) {
      const job = file.prepare(FIND_HELD).get(jobId, node, attempt)
      if (job === undefined) continue
      file.prepare(RELEASE).run(returnTurn(file, textOf(job, 'route')), jobId)
    }
  }),

  releaseWaiting: write((file: ServedFile, node: string, releases: readonly WaitingRelease[]): void => {
    for (const { jobId, attempt, route, earlierJson, sinceMs, waitedMs } of releases) {
      if (file.prepare(FIND_HELD).get(jobId, node, attempt) === undefined) continue
      const wait = [route, earlierJson, sinceMs, waitedMs] as const
      file.prepare(RELEASE_WAITING).run(returnTurn(file, route), ...wait, jobId)
    }
  }),

  recordStarts: write((file: ServedFile, node: string, claims: readonly Claim[]): void => {
    for (const { jobId, attempt } of claims) file.prepare(RECORD_START).run(jobId, node, attempt)
  }),

  rescue: write((file: ServedFile, node: string, nowMs: number): number => {
    file.prepare(RESCUE_CALLBACKS).run(nowMs, node)
    const lost = file.prepare(LOST_JOBS).all(node)
    for (const job of lost) {
      const turn = returnTurn(file, textOf(job, 'route'))
      const crashes = [numberOf(job, 'crashes'), numberOf(job, 'crashed_alone')] as const
      file.prepare(RETURN).run(turn, ...crashes, textOf(job, 'id'))
    }
    return lost.length
  }),
}

/** Returns the turn of a job that returns to the route, and makes sure that the next walk does not start after it. */
function returnTurn(file: ServedFile, route: string): number {
  const turn = headTurn(file, route)
  file.places.joined(route, turn)
  file.queue.return(1)
  return turn
}

const CLAIMS = 'select id, attempt from jobs indexed by jobs_held where node = ?'
const FIND_HELD = 'select route from jobs where id = ? and node = ? and attempt = ?'
/** Both statements leave the status `assigned`, because a status never returns to `pending`. */
const RELEASE_WAITING = `
  update jobs set node = null, turn = ?, route = ?, earlier = ?, waits_since_ms = ?, waited_ms = ? where id = ?`
const RELEASE = 'update jobs set node = null, turn = ? where id = ?'
const RECORD_START = 'update jobs set started = attempt where id = ? and node = ? and attempt = ?'
const RESCUE_CALLBACKS = `
  update callbacks indexed by callbacks_due set node = null, under_way = 0, due_at_ms = min(due_at_ms, ?)
  where due_at_ms is not null and node is not null and node <> ?`
/**
 * A crash counts against a suspect only if the start of its execution was recorded. A suspect crashed alone if the crash counts
 * against no other suspect of the node.
 */
const LOST_JOBS = `
  with lost as (
    select id, node, route, deaths, crashed_alone, deaths > 0 as suspect, deaths = 0 or started = attempt as counts
    from jobs indexed by jobs_held where node is not null and node <> ?
  )
  select id, route, deaths + counts as crashes, case when counts
    then iif(sum(iif(suspect, counts, 0)) over n = suspect and (suspect or sum(counts) over n = 1), deaths + 1, 0)
    else crashed_alone end as crashed_alone
  from lost window n as (partition by node)`
const RETURN = 'update jobs set node = null, turn = ?, deaths = ?, crashed_alone = ? where id = ?'
