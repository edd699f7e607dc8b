/** Returns jobs that their node releases to the head of their route in SQLite. */
import type { Claim } from '../node-store.ts'
import { textOf } from '../rows.ts'
import type { WaitingRelease } from '../store.ts'
import { headTurn } from './fair-order.ts'
import type { ServedFile } from './open-file.ts'
import { write } from './operation.ts'

export const releaseOperations = {
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
}

/** Returns the turn of a job that returns to the route. The next walk of the route starts there or earlier. */
export function returnTurn(file: ServedFile, route: string): number {
  const turn = headTurn(file, route)
  file.places.joined(route, turn)
  file.queue.return(1)
  return turn
}

const FIND_HELD = 'select route from jobs where id = ? and node = ? and attempt = ?'
/** These statements keep the status `assigned`, because a status never returns to `pending`. */
const RELEASE_WAITING = `
  update jobs set node = null, turn = ?, route = ?, earlier = ?, waits_since_ms = ?, waited_ms = ? where id = ?`
const RELEASE = 'update jobs set node = null, turn = ? where id = ?'
