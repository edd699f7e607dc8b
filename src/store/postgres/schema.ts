/** Brings the schema up to date. Many nodes may start at once: one does it, the others wait and find it done. */
import pg from 'pg'
import { DatabaseProblem } from '../database-problem.ts'
import { COPY_LOCK } from './copy-lock.ts'
import { connectionSettings } from './database.ts'
import { MIGRATIONS } from './migrations.ts'

/** Any number that no other program on the same database is likely to lock. */
const LOCK = 7_264_539_153

/** Returns how many steps were taken. Rejects with a `DatabaseProblem` for what the operator must mend. */
export async function migratePostgres(url: string): Promise<number> {
  const client = new pg.Client(connectionSettings(url, null))
  client.on('error', () => {})
  try {
    await client.connect()
    return await migrate(client)
  } catch (error) {
    if (error instanceof DatabaseProblem) throw error
    const { message, code } = error as Error & { code?: string }
    throw new DatabaseProblem(
      `The database cannot be used: ${message || code}. Check DATABASE_URL, and that the role may create tables there.`,
    )
  } finally {
    await client.end()
  }
}

async function migrate(client: pg.Client): Promise<number> {
  // Without a session's lock, so that it holds behind a pooler that shares connections between transactions.
  await client.query('begin')
  try {
    await refuseWhileCopied(client)
    await client.query(`select pg_advisory_xact_lock(${LOCK})`)
    await client.query('create table if not exists schema_version (version integer not null)')
    const { rows } = await client.query<{ version: number }>(
      'select max(version) as version from schema_version',
    )
    const have = rows[0]?.version ?? 0
    if (have > MIGRATIONS.length) {
      throw new DatabaseProblem(
        `The database was written by a newer Parley (schema ${have}, this one knows ${MIGRATIONS.length}). Start that version, or a newer one.`,
      )
    }
    for (const step of MIGRATIONS.slice(have)) await client.query(step)
    if (have < MIGRATIONS.length) {
      await client.query('insert into schema_version values ($1)', [MIGRATIONS.length])
    }
    await client.query('commit')
    return MIGRATIONS.length - have
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}

async function refuseWhileCopied(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ free: boolean }>(
    `select pg_try_advisory_xact_lock_shared(${COPY_LOCK}) as free`,
  )
  if (rows[0]?.free === false) {
    throw new DatabaseProblem(
      'A `parley copy` from or into this database is under way. Wait until it has ended.',
    )
  }
}
