/**
 * Classifies errors of the database by four questions: Can the operation be retried? Is it rejected permanently? May it have
 * run? Can the connection still be used?
 */
import { DatabaseError } from 'pg'
import { StoreUnavailable, UnknownAccount, WriteRejected } from '../store.ts'

/** The connection broke. The operation may have run, or may still be running. */
export class OutcomeUnknown extends StoreUnavailable {}

/** The database rolled the operation back in favour of another one. `Database` retries it at once. */
export class Overruled extends StoreUnavailable {}

/** SQLSTATE codes: deadlock, serialization failure, and a plan that a migration has made stale. */
const OVERRULED = ['40P01', '40001', '0A000']
/**
 * The function in Postgres that rejects a stale plan. The message of the error depends on the language of the server
 * (`lc_messages`).
 */
const STALE_PLAN = 'RevalidateCachedQuery'
/**
 * SQLSTATE classes of temporary errors: connection, resources, operator intervention, system, and a lock that is not available.
 */
const PASSING_CLASSES = ['08', '53', '57', '58', '55']
/** SQLSTATE classes of errors in the row itself: its data, a constraint, a limit of the database. */
const REJECTING_CLASSES = ['22', '23', '54']
/** SQLSTATE: null in a column that must not be null. */
const NOT_NULL = '23502'
/** SQLSTATE: the server is read-only, such as a standby after a failover. */
const READ_ONLY = '25006'
/** SQLSTATE codes with which the server closes a connection: shutdown, crash, startup, session timeout. */
const ENDING = ['57P01', '57P02', '57P03', '57P05', '25P03']

/** @param error the rejection of a query that was sent */
export function meaningOf(error: unknown): unknown {
  if (!(error instanceof DatabaseError)) {
    // Without an error from the server, the socket broke, or no response came in time.
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

/** True if the connection should not be used again. */
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
