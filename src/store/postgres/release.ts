/** Returns jobs that their node releases to the head of the queue, in Postgres. */
import { numberOf } from '../rows.ts'
import type { Store, WaitingRelease } from '../store.ts'
import type { Statement } from './database.ts'
import { MAX_WEIGHT } from './groups.ts'
import type { PostgresParts } from './parts.ts'
import { eachAlone } from './unknown-commit.ts'

interface OneRelease {
  readonly node: string
  readonly release: WaitingRelease
}

export function releaseOperations({
  database,
  groups,
  queueHead,
  notifications,
}: PostgresParts): Pick<Store, 'release' | 'releaseWaiting'> {
  /** When a model server fails, all that runs there is released at once. All releases are of this node. */
  const waiting = groups.add<OneRelease, undefined>({
    weight: { of: ({ release }) => 100 + release.earlierJson.length, max: MAX_WEIGHT },
    commit: (group) => eachAlone(group, releaseAll),
  })

  const releaseAll = async (group: readonly OneRelease[]): Promise<undefined[]> => {
    const releases = group.map(({ release }) => release)
    const columns = [
      releases.map(({ jobId }) => jobId),
      releases.map(({ attempt }) => attempt),
      releases.map(({ route }) => route),
      releases.map(({ earlierJson }) => earlierJson),
      releases.map(({ sinceMs }) => Math.floor(sinceMs)),
      releases.map(({ waitedMs }) => Math.floor(waitedMs)),
    ]
    const rows = await database.query(RELEASE_WAITING, [group[0]?.node, queueHead.turn, ...columns])
    for (const row of rows) queueHead.joined(numberOf(row, 'turn'))
    notifications.jobQueued(queueHead.turn)
    return group.map(() => undefined)
  }

  return {
    releaseWaiting: async (node, releases) => {
      await Promise.all(releases.map((release) => waiting.submit({ node, release })))
    },

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

/** $1 node, $2 the queue's turn, then ids, attempts, routes, earlier runs, times of release, and how long they had waited. */
const RELEASE_WAITING: Statement = {
  repeatable: true,
  name: 'release waiting',
  text: `
  update open_jobs o set node = null, turn = ${headTurn('$2')}, route = c.route, earlier = c.earlier,
    waits_since_ms = c.since_ms, waited_ms = c.waited_ms
  from unnest($3::uuid[], $4::integer[], $5::text[], $6::text[], $7::bigint[], $8::bigint[])
    as c(id, attempt, route, earlier, since_ms, waited_ms)
  where o.id = c.id and o.node = $1 and o.attempt = c.attempt returning o.turn`,
}
