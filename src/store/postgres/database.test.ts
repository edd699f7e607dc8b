/** Tests how errors of the database are classified. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DatabaseError } from 'pg'
import { connectPostgres } from '../../../test/postgres/connection.ts'
import { freshDatabase } from '../../../test/postgres/database.ts'
import { meaningOf, Overruled } from './database.ts'

test('a plan that a migration made stale is retried, whatever the language of the server', async (t) => {
  const client = await connectPostgres(t, await freshDatabase(t))
  await client.query('create table numbers (number integer)')
  const read = () => client.query({ name: 'read numbers', text: 'select * from numbers' })
  await read()
  await client.query('alter table numbers alter number type bigint')
  const error: unknown = await read().catch((reason) => reason)
  assert.ok(error instanceof DatabaseError)
  error.message = 'gecachter Plan darf den Ergebnistyp nicht ändern'
  assert.ok(meaningOf(error) instanceof Overruled)
})
