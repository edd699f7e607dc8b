/** Adds a node of an earlier version to a Parley on Postgres, for tests of features that such a node would ignore. */
import type { Lifetime, Parley } from '../parley.ts'
import { connectPostgres } from '../postgres/connection.ts'

/**
 * @param features the names of the features that the node knows. Nodes up to version 0.3 write none
 * @returns a function that ends the node's lease
 */
export async function addEarlierNode(t: Lifetime, { database }: Parley, features: string | null = null) {
  const client = await connectPostgres(t, database)
  await client.query(
    `insert into nodes (node, lease_until, features) values ('earlier', clock_timestamp() + interval '600 s', $1)
     on conflict (node) do update set lease_until = excluded.lease_until, features = excluded.features`,
    [features],
  )
  return async () => {
    await client.query(
      `update nodes set lease_until = clock_timestamp() - interval '1 s' where node = 'earlier'`,
    )
  }
}
