/** A connection of a test's own to a Postgres, beside those of Parley. */
import { Client, type ClientConfig } from 'pg'
import type { Lifetime } from '../parley.ts'

export async function connectPostgres(t: Lifetime, url: string | ClientConfig): Promise<Client> {
  const client = new Client(url)
  await client.connect()
  t.after(() => client.end())
  return client
}
