/** Leases of nodes in Postgres, by the database's clock. */
import { numberOf, textOf } from '../rows.ts'
import type { Store } from '../store.ts'
import type { Database, Statement } from './database.ts'
import type { PostgresParts } from './parts.ts'

export function nodeOperations({ database, queueHead }: PostgresParts): Pick<Store, 'renew' | 'leave'> {
  return {
    renew: async (node, leaseMs) => {
      const [renewed] = await database.query(RENEW, [node, leaseMs, queueHead.turn])
      const rows = await database.query(HELD, [node])
      return {
        kept: renewed?.kept === true,
        held: rows.map((row) => ({ jobId: textOf(row, 'id'), attempt: numberOf(row, 'attempt') })),
      }
    },

    leave: async (node) => {
      await database.query(LEAVE, [node])
    },
  }
}

/** Shares how far this node has claimed, and returns how far any node has. */
export async function shareTurn(database: Database, node: string, turn: number): Promise<number> {
  const [row] = await database.query(SHARE_TURN, [node, turn])
  return row ? numberOf(row, 'turn') : 0
}

/** `xmax` of a row is 0 only where it was inserted and not updated. */
const RENEW = {
  name: 'renew',
  text: `insert into nodes as n (node, lease_until, turn)
    values ($1, clock_timestamp() + $2::double precision * interval '1 ms', $3)
    on conflict (node) do update set lease_until = excluded.lease_until, turn = greatest(n.turn, excluded.turn)
    returning xmax <> 0 as kept`,
}
const HELD: Statement = {
  repeatable: true,
  name: 'held',
  text: 'select id, attempt from open_jobs where node = $1',
}
const LEAVE: Statement = { repeatable: true, name: 'leave', text: 'delete from nodes where node = $1' }
const SHARE_TURN: Statement = {
  repeatable: true,
  name: 'share turn',
  text: `with mine as (update nodes set turn = $2 where node = $1 and turn < $2::bigint)
    select greatest(max(turn), $2::bigint) as turn from nodes`,
}
