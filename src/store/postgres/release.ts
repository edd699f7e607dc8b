/** Returns jobs that this node releases to the heads of their queues in Postgres. */
import { numberOf, type Row, textOf } from '../rows.ts'
import type { Store, WaitingRelease } from '../store.ts'
import type { Statement } from './database.ts'
import { headTurn } from './fair-order.ts'
import type { PostgresParts } from './parts.ts'
import { MAX_WEIGHT } from './parts.ts'
import { eachAlone } from './unknown-commit.ts'

interface OneRelease {
  readonly node: string
  readonly release: WaitingRelease
}

export function releaseOperations(parts: PostgresParts): Pick<Store, 'release' | 'releaseWaiting'> {
  const { database, groups, walks } = parts
  /** When a model server fails, all of its jobs are released at once, so releases share statements. */
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
    noteReturned(
      parts,
      await database.query(RELEASE_WAITING, [group[0]?.node, walks.turnsJson(), ...columns]),
    )
    return group.map(() => undefined)
  }

  return {
    releaseWaiting: async (node, releases) => {
      await Promise.all(releases.map((release) => waiting.submit({ node, release })))
    },

    release: async (node, claims) => {
      const ids = claims.map(({ jobId }) => jobId)
      const attempts = claims.map(({ attempt }) => attempt)
      noteReturned(parts, await database.query(RELEASE, [node, ids, attempts, walks.turnsJson()]))
    },
  }
}

/**
 * The walks of this node (`route-walks.ts`) and the other nodes must know that jobs returned to the queue. The turn in a row is
 * null if the job does not wait.
 */
export function noteReturned({ walks, notifications }: PostgresParts, rows: readonly Row[]): void {
  for (const row of rows) {
    if (row.turn === null) continue
    const [route, turn] = [textOf(row, 'route'), numberOf(row, 'turn')]
    walks.joined(route, turn)
    notifications.jobQueued(route, turn)
  }
}

const RELEASE: Statement = {
  repeatable: true,
  name: 'release',
  text: `
  update open_jobs o set node = null, turn = ${headTurn('$4', 'o.route')}
  from unnest($2::uuid[], $3::integer[]) as c(id, attempt)
  where o.id = c.id and o.node = $1 and o.attempt = c.attempt returning o.route, o.turn`,
}

/** $1 node, $2 the turns of routes, then IDs, attempts, routes, earlier runs, times of release, and earlier waiting times. */
const RELEASE_WAITING: Statement = {
  repeatable: true,
  name: 'release waiting',
  text: `
  update open_jobs o set node = null, turn = ${headTurn('$2', 'c.route')}, route = c.route, earlier = c.earlier,
    waits_since_ms = c.since_ms, waited_ms = c.waited_ms
  from unnest($3::uuid[], $4::integer[], $5::text[], $6::text[], $7::bigint[], $8::bigint[])
    as c(id, attempt, route, earlier, since_ms, waited_ms)
  where o.id = c.id and o.node = $1 and o.attempt = c.attempt returning o.route, o.turn`,
}
