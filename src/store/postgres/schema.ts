/** Brings the schema up to date. Many nodes may start at once: one does it, the others wait and find it done. */
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { DatabaseProblem } from '../database-problem.ts'
import { connectionSettings } from './database.ts'
import { MIGRATIONS } from './migrations.ts'
import { COPY_LOCK } from './transfer-lock.ts'

/** Any number that no other program on the same database is likely to lock. */
const LOCK = 7_264_539_153
/** How long a step waits for the locks of its tables. */
export interface Patience {
  /** Meanwhile everything that comes after it for the table waits as well. */
  readonly lockMs: number
  readonly tries: number
  /** Between them, for what has piled up behind it to go first. */
  readonly pauseMs: number
}
const PATIENCE: Patience = { lockMs: 2000, tries: 5, pauseMs: 1000 }
/** SQLSTATE of a lock not to be had in time, and of a deadlock. */
const IN_THE_WAY = ['55P03', '40P01']

/** Returns how many steps were taken. Rejects with a `DatabaseProblem` for what the operator must mend. */
export async function migratePostgres(url: string, patience = PATIENCE): Promise<number> {
  const client = new pg.Client(connectionSettings(url, null))
  client.on('error', () => {})
  try {
    await client.connect()
    return await migrate(client, patience)
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

async function migrate(client: pg.Client, patience: Patience): Promise<number> {
  for (let taken = 0; ; taken++) {
    if (!(await takeStep(client, patience))) return taken
  }
}

/**
 * Each step is a transaction of its own, so that the locks of one are held for its own time only. Returns whether there was
 * one to take.
 */
async function takeStep(client: pg.Client, patience: Patience): Promise<boolean> {
  for (let tried = 1; ; tried++) {
    try {
      return await tryStep(client, patience.lockMs)
    } catch (error) {
      await client.query('rollback')
      if (!IN_THE_WAY.includes((error as { code?: string }).code ?? '')) throw error
      if (tried === patience.tries) {
        throw new DatabaseProblem(
          `The tables could not be locked to bring them up to date: ${(error as Error).message}. Another program holds them in a long transaction, such as a backup (pg_dump); pg_stat_activity shows it. Wait for its end, or end it, and start again.`,
          { cause: error },
        )
      }
      await pause(patience.pauseMs)
    }
  }
}

async function tryStep(client: pg.Client, lockMs: number): Promise<boolean> {
  // Without a session's lock, so that it holds behind a pooler that shares connections between transactions.
  await client.query('begin')
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
  const step = MIGRATIONS[have]
  if (step !== undefined) {
    await client.query(`set local lock_timeout = ${lockMs}`)
    await client.query(step)
    await client.query('insert into schema_version values ($1)', [have + 1])
  }
  await client.query('commit')
  return step !== undefined
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
