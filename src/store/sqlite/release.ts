/** Returns jobs that their node releases to the head of the queue, in SQLite. */
import type { Claim } from '../node-store.ts'
import type { WaitingRelease } from '../store.ts'
import type { ServedFile } from './open-file.ts'
import { write } from './operation.ts'

export const releaseOperations = {
  release: write((file: ServedFile, node: string, claims: readonly Claim[]): void => {
    const { queue, fairOrder } = file
    for (const { jobId, attempt } of claims) {
      const { changes } = file.prepare(RELEASE).run(fairOrder.turn, jobId, node, attempt)
      queue.return(Number(changes))
    }
  }),

  releaseWaiting: write((file: ServedFile, node: string, releases: readonly WaitingRelease[]): void => {
    const { queue, fairOrder } = file
    for (const { jobId, attempt, route, earlierJson, sinceMs, waitedMs } of releases) {
      const wait = [route, earlierJson, sinceMs, waitedMs] as const
      const { changes } = file.prepare(RELEASE_WAITING).run(fairOrder.turn, ...wait, jobId, node, attempt)
      queue.return(Number(changes))
    }
  }),
}

const RELEASE_WAITING = `
  update jobs set node = null, turn = ?, route = ?, earlier = ?, waits_since_ms = ?, waited_ms = ?
  where id = ? and node = ? and attempt = ?`
const RELEASE = 'update jobs set node = null, turn = ? where id = ? and node = ? and attempt = ?'
