import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { Database, methodsOn, queryOf } from './postgres/database.ts'
import { allOf, join, raw, read, type Steps, sql } from './sql.ts'
import { OpenFile } from './sqlite/open-file.ts'
import { onFile, rowsOf } from './sqlite/operation.ts'

const piece = sql`select * from ${raw('keys')} where ${allOf(undefined, sql`id = ${"'; drop"}`, sql`ok = ${true}`)}`

/** Returns what Postgres would receive. */
async function sentToPostgres(statement: typeof piece) {
  const sent: unknown[] = []
  const query = async ({ text }: { readonly text: string }, values?: readonly unknown[]) => {
    sent.push(text, values)
    return []
  }
  await queryOf({ query }, statement)
  return sent
}

test('values never become text, and nested pieces keep their order', async () => {
  const nested = sql`${piece} and age > ${5} and (${join([sql`a = ${1}`, sql`b = ${null}`], ' or ')})`
  assert.deepEqual(await sentToPostgres(nested), [
    'select * from keys where true and id = $1 and ok = $2 and age > $3 and (a = $4 or b = $5)',
    ["'; drop", true, 5, 1, null],
  ])
})

test('the text depends only on the pieces, so that each statement is prepared once', () => {
  const select = (id: string) => sql`select ${id} where ${id} = ${sql`x`}`
  assert.deepEqual(select('a').texts, select('b').texts)
})

test('SQLite stores booleans as numbers, and lists as JSON', () => {
  const db = new DatabaseSync(':memory:')
  const statement = sql`select ${true} as yes, (select sum(value) from json_each(${[1, 2]})) as sum`
  const [row] = rowsOf((text) => db.prepare(text), statement)
  assert.deepEqual({ ...row }, { yes: 1, sum: 3 })
  db.close()
})

test('an operation receives the rows of each statement that it yields', async () => {
  const table = {
    twice: read(function* (start: number): Steps<number> {
      const [first] = yield sql`select ${start} + 1 as n`
      const [second] = yield sql`select ${Number(first?.n)} + 1 as n`
      return Number(second?.n)
    }),
  }
  const db = new DatabaseSync(':memory:')
  assert.equal(onFile(table).twice.run(new OpenFile(db), 1), 3)
  db.close()
  const database = new Database({ url: 'postgres://nowhere', connections: 1, prepare: false, statementMs: 1 })
  const answers = [[{ n: 2 }], [{ n: 3 }]]
  database.query = async () => answers.shift() ?? []
  assert.equal(await methodsOn(database, table).twice(1), 3)
})
