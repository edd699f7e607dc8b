/**
 * Reads a SQLite file as the source of a transfer, in one snapshot, or fills one as the target, in one transaction. No server
 * uses the file meanwhile. If the process is killed, the next one that opens the target rolls the transfer back.
 *
 * The target uses a rollback journal, which contains only the few pages that existed before. A write-ahead log would contain
 * everything that is transferred.
 */
import { existsSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { DatabaseProblem, notEmpty } from '../database-problem.ts'
import type { Row } from '../rows.ts'
import { sql } from '../sql.ts'
import { sourceOn } from '../transfer.ts'
import {
  isOfJob,
  type Kind,
  type TransferSource,
  type TransferTarget,
  tablesOf,
} from '../transfer-contract.ts'
import { holdsAnything } from './database-summary.ts'
import { SQLITE } from './dialect.ts'
import type { Cell } from './open-file.ts'
import { lockForTransfer, openFile } from './opening.ts'
import { rowsOf } from './operation.ts'
import { migrate, schemaVersion } from './schema.ts'
import { COUNT } from './sums.ts'

export function openSqliteSource(path: string): TransferSource {
  // Locking and opening would create the missing file instead of reporting it.
  if (!existsSync(path)) throw new DatabaseProblem(`There is no file ${path}.`)
  return openLocked(path, (db, lock) => {
    if (schemaVersion(db) === 0) {
      throw new DatabaseProblem(`${path} is not a database of Parley.`)
    }
    migrate(db)
    // Commands may create keys during the transfer, so all reads use one snapshot.
    db.exec('begin')
    return sqliteSource(db, lock)
  })
}

/**
 * The lock comes first, because the file cannot be opened while another transfer fills it.
 * @param prepare if this throws, the file and the lock are closed
 */
function openLocked<T>(path: string, prepare: (db: DatabaseSync, lock: DatabaseSync) => T): T {
  const lock = lockForTransfer(path)
  let db: DatabaseSync | undefined
  try {
    db = openFile(path)
    return prepare(db, lock)
  } catch (error) {
    db?.close()
    lock.close()
    throw error
  }
}

function sqliteSource(db: DatabaseSync, lock: DatabaseSync): TransferSource {
  return sourceOn({
    store: 'sqlite',
    dialect: SQLITE,
    headTurn: sql`(
      select min(h.turn) from jobs h indexed by jobs_by_route where h.turn is not null and h.route = j.route)`,
    from: {
      callbacks: { key: ['seq'] },
      // Rows of `kept_answers` have no job ID, so they are joined to `jobs`.
      cachedResponses: {
        table: sql`(
          select j.id as job_id, k.fingerprint, j.settled_at_ms as kept_at_ms, k.until_ms
          from jobs j cross join kept_answers k on k.seq = j.seq
        )`,
      },
    },
    query: async (statement) => asProblem(() => rowsOf((text) => db.prepare(text), statement)),
    close: async () => {
      db.close()
      lock.close()
    },
  })
}

export function openSqliteTarget(path: string): TransferTarget {
  return openLocked(path, (db, lock) => {
    migrate(db)
    if (holdsAnything(db)) throw notEmpty(path)
    leaveWriteAheadLog(db, path)
    // `extra` also makes the removal of the journal durable, in case the power fails right after the commit.
    db.exec('pragma synchronous = extra; begin exclusive')
    if (holdsAnything(db)) throw notEmpty(path)
    return sqliteTarget(db, lock)
  })
}

function leaveWriteAheadLog(db: DatabaseSync, path: string): void {
  try {
    db.exec('pragma journal_mode = delete')
  } catch (error) {
    throw new DatabaseProblem(`Another program has ${path} open. Stop it first.`, { cause: error })
  }
}

function sqliteTarget(db: DatabaseSync, lock: DatabaseSync): TransferTarget {
  let seq = 0
  return {
    add: async (kind, rows) =>
      asProblem(() => {
        const numbered =
          kind === 'jobs' ? rows.map((row) => ({ ...row, messages: row.messages ?? '', seq: ++seq })) : rows
        const [added = 0] = tablesOf(kind, 'sqlite').map(({ table, names, isPartOf }) =>
          insert(db, kind, table, names, numbered.filter(isPartOf)),
        )
        return added
      }),

    commit: async () => {
      asProblem(() => db.exec(`${COUNT}; commit`))
    },

    close: async () => {
      if (db.isTransaction) db.exec('rollback')
      db.exec('pragma journal_mode = wal')
      db.close()
      lock.close()
    },
  }
}

/** All rows of a job get the row number that the job has in this file. */
function insert(
  db: DatabaseSync,
  kind: Kind,
  table: string,
  names: readonly string[],
  rows: readonly Row[],
): number {
  const columns = kind === 'jobs' || isOfJob(kind) ? [...names, 'seq'] : names
  const places = names.map(() => '?').join(', ')
  const values = isOfJob(kind)
    ? `select ${places}, seq from jobs where id = ? and settled_at_ms is not null`
    : `values (${columns.map(() => '?').join(', ')})`
  const statement = db.prepare(`insert into ${table} (${columns.join(', ')}) ${values}`)
  const given = isOfJob(kind) ? [...names, 'job_id'] : columns
  return rows.reduce(
    (added, row) => added + Number(statement.run(...given.map((name) => row[name] as Cell)).changes),
    0,
  )
}

function asProblem<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof Error && 'errcode' in error) {
      throw new DatabaseProblem(`SQLite reports: ${error.message}.`, { cause: error })
    }
    throw error
  }
}
