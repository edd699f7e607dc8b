/**
 * Classifies errors of the database: whether the operation may have run, can be retried, or is rejected permanently, and
 * whether the connection can still be used.
 */
import { DatabaseError } from 'pg'
import { StoreUnavailable, UnknownAccount, WriteRejected } from '../store.ts'

/** The operation may have run, or may still be running, because the connection broke. */
export class OutcomeUnknown extends StoreUnavailable {}

/** The database rolled the operation back in favour of another one. `Database` retries it at once. */
export class Overruled extends StoreUnavailable {}

/** These SQLSTATE codes mean a deadlock, a serialization failure, and a plan that a migration has made stale. */
const OVERRULED = ['40P01', '40001', '0A000']
/**
 * Postgres rejects a stale plan in this function. The message of the error depends on the server's language (`lc_messages`).
 */
const STALE_PLAN = 'RevalidateCachedQuery'
/**
 * These SQLSTATE classes are temporary: connection, resources, operator intervention, system, and a lock that is not available.
 */
const PASSING_CLASSES = ['08', '53', '57', '58', '55']
/** These SQLSTATE classes mean an error in the row itself: its data, a constraint, a limit of the database. */
const REJECTING_CLASSES = ['22', '23', '54']
const NOT_NULL = '23502'
/** A standby, for example after a failover, reports this SQLSTATE. */
const READ_ONLY = '25006'
/** With these SQLSTATE codes the server closes a connection: shutdown, crash, startup, session timeout. */
const ENDING = ['57P01', '57P02', '57P03', '57P05', '25P03']

export function meaningOf(error: unknown): unknown {
  if (!(error instanceof DatabaseError)) {
    // Only the server sends a `DatabaseError`, so the socket broke, or no response came in time.
    return new OutcomeUnknown(`The connection to the database broke: ${textOf(error)}`, { cause: error })
  }
  const code = error.code ?? ''
  const message = `The database: ${error.message} (${code})`
  if (ENDING.includes(code) || error.severity === 'FATAL' || error.severity === 'PANIC') {
    return new OutcomeUnknown(message, { cause: error })
  }
  if (code === '0A000' && error.routine !== STALE_PLAN) return error
  if (OVERRULED.includes(code)) return new Overruled(message, { cause: error })
  if (code === READ_ONLY || PASSING_CLASSES.includes(code.slice(0, 2))) {
    return new StoreUnavailable(message, { cause: error })
  }
  // `accept.ts` writes null as the account of a job if that account does not exist.
  if (code === NOT_NULL && error.column === 'account') return new UnknownAccount()
  if (REJECTING_CLASSES.includes(code.slice(0, 2))) return new WriteRejected(message, { cause: error })
  return error
}

export function breaksConnection(meaning: unknown): boolean {
  return meaning instanceof OutcomeUnknown || (meaning instanceof StoreUnavailable && isReadOnly(meaning))
}

/** A connection to a standby would reject all writes. A new connection may reach the new primary. */
function isReadOnly({ cause }: StoreUnavailable): boolean {
  return cause instanceof DatabaseError && cause.code === READ_ONLY
}

function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.message || ('code' in error ? String(error.code) : error.name)
}
