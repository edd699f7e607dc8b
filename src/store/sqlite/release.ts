/** Returns jobs that their node releases to the head of the queue, in SQLite. */
import type { Claim } from '../node-store.ts'
import type { ServedFile } from './open-file.ts'
import { write } from './operation.ts'

export const releaseOperations = {
  release: write((file: ServedFile, node: string, claims: readonly Claim[]): void => {
    const { queue } = file
    for (const { jobId, attempt } of claims) {
      const { changes } = file.prepare(RELEASE).run(queue.turn, jobId, node, attempt)
      queue.return(Number(changes))
    }
  }),
}

const RELEASE = 'update jobs set node = null, turn = ? where id = ? and node = ? and attempt = ?'
