/** Opens stores on an empty schema of Postgres, for tests of what only Postgres does. */
import type { TestContext } from 'node:test'
import type pg from 'pg'
import { Database } from '../../src/store/postgres/database.ts'
import { connectPostgres } from '../postgres/connection.ts'
import { freshDatabase } from '../postgres/database.ts'
import { openNode, type TestNode } from '../support/postgres-nodes.ts'
import { addAccounts } from './steps.ts'

export interface Scene {
  readonly url: string
  readonly client: pg.Client
  readonly database: Database
  open(): Promise<TestNode>
  query(text: string): Promise<Record<string, unknown>[]>
  /** @param rows the part of a query after `from` */
  count(rows: string): Promise<number>
}

/** @param url the URL of an existing database. The default is an empty one */
export async function openScene(t: TestContext, url?: string): Promise<Scene> {
  const where = url ?? (await freshDatabase(t))
  const client = await connectPostgres(t, where)
  const database = new Database({ url: where, connections: 2, prepare: true, statementMs: 15_000 })
  t.after(() => database.close())
  const query = async (text: string) => (await client.query(text)).rows
  return {
    url: where,
    client,
    database,
    open: async () => {
      const node = await openNode(where)
      t.after(() => node.store.close())
      return node
    },
    query,
    count: async (rows) => Number((await query(`select count(*) as n from ${rows}`))[0]?.n),
  }
}

export async function openOnPostgres(t: TestContext, ...accounts: readonly string[]) {
  const scene = await openScene(t)
  const node = await scene.open()
  await addAccounts(node.store, ...accounts)
  return { ...scene, node, store: node.store }
}
