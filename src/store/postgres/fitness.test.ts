/** Problems of a database that Parley refuses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectPostgres } from '../../../test/postgres/connection.ts'
import { administer, afterAllElse, freshDatabase, uniqueName } from '../../../test/postgres/database.ts'
import { openNode } from '../../../test/support/postgres-nodes.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { checkFitness } from './fitness.ts'

test('a database whose encoding lacks characters is a problem', async (t) => {
  const database = uniqueName()
  await administer(`create database ${database} template template0 encoding 'LATIN1' locale 'C'`)
  afterAllElse(t, () => administer(`drop database ${database} with (force)`))
  const url = new URL(await freshDatabase(t))
  url.pathname = `/${database}`
  url.search = ''
  await assert.rejects(openNode(url.href), /The encoding of the database is LATIN1.*UTF8/)
})

test('an isolation level that a pooler imposes is a problem', async (t) => {
  const client = await connectPostgres(t, await freshDatabase(t))
  const queries = { query: async ({ text }: { text: string }) => (await client.query(text)).rows }
  await checkFitness(queries, () => {})
  await client.query(`set default_transaction_isolation = 'serializable'`)
  await assert.rejects(
    checkFitness(queries, () => {}),
    (error) => {
      assert.ok(error instanceof DatabaseProblem)
      assert.match(error.message, /serializable.*read committed/)
      return true
    },
  )
})
