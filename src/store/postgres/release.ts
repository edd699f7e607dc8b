/** Returns jobs that their node releases to the head of the queue, in Postgres. */
import { numberOf } from '../rows.ts'
import type { Store } from '../store.ts'
import type { Statement } from './database.ts'
import type { PostgresParts } from './parts.ts'

export function releaseOperations({
  database,
  queueHead,
  notifications,
}: PostgresParts): Pick<Store, 'release'> {
  return {
    release: async (node, claims) => {
      const ids = claims.map(({ jobId }) => jobId)
      const attempts = claims.map(({ attempt }) => attempt)
      const rows = await database.query(RELEASE, [node, ids, attempts, queueHead.turn])
      for (const row of rows) queueHead.joined(numberOf(row, 'turn'))
      notifications.jobQueued(queueHead.turn)
    },
  }
}

/**
 * The turn of the head of the queue, so that returned jobs are claimed first.
 * @param parameter the queue's turn as the node knows it
 */
export const headTurn = (parameter: string) =>
  `coalesce((select turn from open_jobs where turn >= ${parameter}::bigint order by turn, id limit 1), ${parameter}::bigint)`

/** $1 node, $2 ids, $3 attempts, $4 the queue's turn. */
const RELEASE: Statement = {
  repeatable: true,
  name: 'release',
  text: `
  update open_jobs o set node = null, turn = ${headTurn('$4')}
  from unnest($2::uuid[], $3::integer[]) as c(id, attempt)
  where o.id = c.id and o.node = $1 and o.attempt = c.attempt returning o.turn`,
}
