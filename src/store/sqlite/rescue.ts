/** Returns jobs and callbacks of dead nodes in SQLite. Only one server uses the file, so every other node is dead. */
import type { Claim } from '../node-store.ts'
import { numberOf, textOf } from '../rows.ts'
import type { ServedFile } from './open-file.ts'
import { write } from './operation.ts'
import { returnTurn } from './release.ts'

export const rescueOperations = {
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

const RECORD_START = 'update jobs set started = attempt where id = ? and node = ? and attempt = ?'
const RESCUE_CALLBACKS = `
  update callbacks indexed by callbacks_due set node = null, under_way = 0, due_at_ms = min(due_at_ms, ?)
  where due_at_ms is not null and node is not null and node <> ?`
/**
 * A crash counts against a suspect only if its start was recorded. A suspect crashed alone if the crash counts against no other
 * suspect of its node.
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
