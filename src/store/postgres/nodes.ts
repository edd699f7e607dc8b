/** Leases of nodes, by the database's clock. */
import type { Renewal } from '../node-store.ts'
import type { Database, Statement } from './database.ts'

export async function renew(
  database: Database,
  node: string,
  leaseMs: number,
  turn: number,
): Promise<Renewal> {
  const [renewed] = await database.query(RENEW, [node, leaseMs, turn])
  const rows = await database.query(HELD, [node])
  return {
    kept: renewed?.kept === true,
    held: rows.map(({ id, attempt }) => ({ jobId: String(id), attempt: Number(attempt) })),
  }
}

export async function leave(database: Database, node: string): Promise<void> {
  await database.query(LEAVE, [node])
}

/** Tells how far this node has claimed, and learns how far any has. */
export async function shareTurn(database: Database, node: string, turn: number): Promise<number> {
  const [row] = await database.query(SHARE_TURN, [node, turn])
  return Number(row?.turn ?? 0)
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
