/**
 * Provides a schema with the empty tables of this version. Creating and dropping tables costs more than most tests do with
 * them. So the next test in the process gets the same schema, without its rows. If a test has changed the tables, the schema is
 * dropped.
 *
 * ```ts
 * const url = await emptyTables(t)
 * ```
 */
import { openPostgresStore } from '../../src/store/postgres/postgres-store.ts'
import type { Lifetime } from '../parley.ts'
import { administer, afterAllElse, uniqueName, urlOfSchema } from './database.ts'

interface Schema {
  /** The day counts from 1970. The tables have partitions for it. */
  readonly day: number
  readonly name: string
  readonly url: string
  /** The digest covers everything that ALTER, CREATE and DROP change. */
  readonly form: string
  readonly empty: string
}

const DAY_MS = 86_400_000
const RETENTION_MS = 7 * DAY_MS

const idle: Schema[] = []

/**
 * The schema shares notifications and advisory locks with other tests, like every schema.
 * @param nowMs the time in the test. The tables have partitions for that day
 */
export async function emptyTables(t: Lifetime, nowMs = Date.now()): Promise<string> {
  const day = Math.floor(nowMs / DAY_MS)
  const found = idle.findIndex((schema) => schema.day === day)
  const schema = idle.splice(found, found < 0 ? 0 : 1)[0] ?? (await make(day))
  afterAllElse(t, () => returnSchema(schema))
  return schema.url
}

async function make(day: number): Promise<Schema> {
  const name = uniqueName()
  await administer(`create schema ${name}`)
  const url = await urlOfSchema(name)
  const store = await openPostgresStore({
    url,
    node: 'tables',
    connections: 1,
    prepare: false,
    statementMs: 60_000,
    maxQueued: 1,
    retentionMs: RETENTION_MS,
    nowMs: () => day * DAY_MS,
    onNote: () => {},
  })
  await store.close()
  const tables = await administer(TABLES, [name])
  // A database that was created for the run will be dropped as a whole, but TEST_DATABASE_URL must be left unchanged.
  if (process.env.TEST_DATABASE_URL) process.once('beforeExit', () => void dropIdle())
  return {
    day,
    name,
    url,
    form: await formOf(name),
    empty: tables.map(({ table }) => `delete from ${name}.${table}`).join(';'),
  }
}

async function returnSchema(schema: Schema): Promise<void> {
  if ((await formOf(schema.name)) !== schema.form) return drop(schema)
  await administer(schema.empty)
  idle.push(schema)
}

async function drop({ name }: Schema): Promise<void> {
  await administer(`drop schema ${name} cascade`)
}

async function dropIdle(): Promise<void> {
  for (const schema of idle.splice(0)) await drop(schema)
}

async function formOf(name: string): Promise<string> {
  const [row] = await administer(FORM, [name])
  return String(row?.form)
}

const TABLES = `
  select relname as table from pg_class
  where relnamespace = $1::regnamespace and relkind = 'r' and relname not in ('schema_version', 'probe')`

/** `xmin` changes with each write of a catalog row, so the digest changes, too. */
const FORM = `
  select md5(string_agg(part, ' ' order by part)) as form from (
    select 'class', oid::text, xmin from pg_class where relnamespace = $1::regnamespace
    union all select 'attribute', attrelid || '.' || attnum, xmin from pg_attribute
      where attrelid in (select oid from pg_class where relnamespace = $1::regnamespace)
    union all select 'trigger', oid::text, xmin from pg_trigger
      where tgrelid in (select oid from pg_class where relnamespace = $1::regnamespace)
    union all select 'constraint', oid::text, xmin from pg_constraint where connamespace = $1::regnamespace
    union all select 'function', oid::text, xmin from pg_proc where pronamespace = $1::regnamespace
  ) as parts (kind, id, written), lateral (select kind || id || ' ' || written as part) as text`
