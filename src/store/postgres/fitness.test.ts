/** Problems of a database that Parley refuses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectPostgres } from '../../../test/postgres/connection.ts'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { checkFitness } from './fitness.ts'

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
