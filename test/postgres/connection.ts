/** Opens a Postgres connection of the test itself, in addition to Parley's. */
import { Client, type ClientConfig } from 'pg'
import type { Lifetime } from '../parley.ts'

export async function connectPostgres(t: Lifetime, url: string | ClientConfig): Promise<Client> {
  const client = new Client(url)
  await client.connect()
  t.after(() => client.end())
  return client
}

/** Returns how many connections wait for locks that this one holds. Counting all locks would include those of other tests. */
export async function blockedBy(client: Client): Promise<number> {
  const { rows } = await client.query(
    'select count(*)::int as count from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid))',
  )
  return rows[0].count
}
