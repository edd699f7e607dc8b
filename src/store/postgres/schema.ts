/** Migrates the Postgres schema. If many nodes start at once, only one at a time applies a migration. */
import { setTimeout as pause } from 'node:timers/promises'
import type pg from 'pg'
import { DatabaseProblem } from '../database-problem.ts'
import { withClient } from './database.ts'
import { MIGRATIONS } from './migrations.ts'

/** Migrations take this advisory lock. No other program on the same database is likely to use the number. */
const LOCK = 7_264_539_153
/**
 * A transfer holds this advisory lock until its transaction ends. Each migration requests it, so servers and commands that
 * migrate the schema do not start meanwhile. The text is an SQL argument.
 */
export const TRANSFER_LOCK = `hashtextextended('copy of ' || current_schema(), 0)`
export interface Patience {
  /** All later statements on the table wait behind the migration, so this is short. */
  readonly lockMs: number
  readonly tries: number
  /** The statements behind the migration run during this pause. */
  readonly pauseMs: number
}
const PATIENCE: Patience = { lockMs: 2000, tries: 5, pauseMs: 1000 }
/** A lock was not granted in time (SQLSTATE 55P03), or there was a deadlock (40P01). */
const IN_THE_WAY = ['55P03', '40P01']

/** Returns how many migrations were applied. Rejects with a `DatabaseProblem` if the operator must fix something. */
export async function migratePostgres(url: string, patience = PATIENCE): Promise<number> {
  try {
    return await withClient(url, null, (client) => migrate(client, patience))
  } catch (error) {
    if (error instanceof DatabaseProblem) throw error
    const { message, code } = error as Error & { code?: string }
    throw new DatabaseProblem(
      `The database cannot be used: ${message || code}. Check DATABASE_URL, and that the role may create tables there.`,
    )
  }
}

async function migrate(client: pg.Client, patience: Patience): Promise<number> {
  for (let applied = 0; ; applied++) {
    if (!(await applyNext(client, patience))) return applied
  }
}

/** Each migration has a transaction of its own, so that its locks end with it. Returns false if there is none to apply. */
async function applyNext(client: pg.Client, patience: Patience): Promise<boolean> {
  for (let tried = 1; ; tried++) {
    try {
      return await tryNext(client, patience.lockMs)
    } catch (error) {
      // If the connection broke, the rollback fails too. The first error has the cause.
      await client.query('rollback').catch(() => {})
      if (!IN_THE_WAY.includes((error as { code?: string }).code ?? '')) throw error
      if (tried === patience.tries) {
        throw new DatabaseProblem(
          `The tables could not be locked to bring them up to date: ${(error as Error).message}. Another program holds them in a long transaction, such as a backup (pg_dump); pg_stat_activity shows it. Wait until it ends, or end it, and start again.`,
          { cause: error },
        )
      }
      await pause(patience.pauseMs)
    }
  }
}

async function tryNext(client: pg.Client, lockMs: number): Promise<boolean> {
  // The lock belongs to the transaction, because a lock of the session would not work behind a pooler that shares connections.
  await client.query('begin')
  await rejectDuringTransfer(client)
  await client.query(`select pg_advisory_xact_lock(${LOCK})`)
  await client.query('create table if not exists schema_version (version integer not null)')
  const { rows } = await client.query<{ version: number }>(
    'select max(version) as version from schema_version',
  )
  const version = rows[0]?.version ?? 0
  if (version > MIGRATIONS.length) {
    throw new DatabaseProblem(
      `The database was written by a newer Parley (schema ${version}, this one knows ${MIGRATIONS.length}). Start that version, or a newer one.`,
    )
  }
  const migration = MIGRATIONS[version]
  if (migration !== undefined) {
    await client.query(`set local lock_timeout = ${lockMs}`)
    await client.query(migration)
    await client.query('insert into schema_version values ($1)', [version + 1])
  }
  await client.query('commit')
  return migration !== undefined
}

async function rejectDuringTransfer(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ free: boolean }>(
    `select pg_try_advisory_xact_lock_shared(${TRANSFER_LOCK}) as free`,
  )
  if (rows[0]?.free === false) {
    throw new DatabaseProblem(
      'A `parley copy` from or into this database is in progress. Wait until it has ended.',
    )
  }
}
