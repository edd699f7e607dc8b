/**
 * What an error of the database means for the operation that met it. Everything else follows from four questions: may it be
 * tried again, is it rejected permanently, may it have been carried out, and is the connection still good.
 */
import { DatabaseError } from 'pg'
import { StoreUnavailable, UnknownAccount, WriteRejected } from '../store.ts'

/** The connection broke during the operation: it may have run, or may still run. */
export class OutcomeUnknown extends StoreUnavailable {}

/** The database ended the operation in favour of another, and nothing of it remains: it is tried again at once. */
export class Overruled extends StoreUnavailable {}

/** SQLSTATE of a deadlock, of a serialization failure, and of a plan that a migration has made stale. */
const OVERRULED = ['40P01', '40001', '0A000']
/** SQLSTATE classes that pass: connection, resources, operator intervention, system, and a lock that is not available. */
const PASSING_CLASSES = ['08', '53', '57', '58', '55']
/** SQLSTATE classes of errors in the row itself: its data, a constraint, a limit of the database's. */
const REJECTING_CLASSES = ['22', '23', '54']
/** A null where a value is required. */
const NOT_NULL = '23502'
/** A server that only reads: a standby, as after a switch to another primary. */
const READ_ONLY = '25006'
/** The server ends the connection with these: shutting down, crashed, starting up, or its session was ended. */
const ENDING = ['57P01', '57P02', '57P03', '57P05', '25P03']

/** @param error what a query was rejected with, once it had been sent */
export function meaningOf(error: unknown): unknown {
  if (!(error instanceof DatabaseError)) {
    // Not an answer of the server's: the socket broke, or no answer came in time.
    return new OutcomeUnknown(`The connection to the database broke: ${textOf(error)}`, { cause: error })
  }
  const code = error.code ?? ''
  const message = `The database: ${error.message} (${code})`
  if (ENDING.includes(code) || error.severity === 'FATAL' || error.severity === 'PANIC') {
    return new OutcomeUnknown(message, { cause: error })
  }
  if (code === '0A000' && !/cached plan/.test(error.message)) return error
  if (OVERRULED.includes(code)) return new Overruled(message, { cause: error })
  if (code === READ_ONLY || PASSING_CLASSES.includes(code.slice(0, 2))) {
    return new StoreUnavailable(message, { cause: error })
  }
  // `accept.ts` gives a job null as its account if that account does not exist.
  if (code === NOT_NULL && error.column === 'account') return new UnknownAccount()
  if (REJECTING_CLASSES.includes(code.slice(0, 2))) return new WriteRejected(message, { cause: error })
  return error
}

/** Whether the connection should not be used again. */
export function breaksConnection(meaning: unknown): boolean {
  return meaning instanceof OutcomeUnknown || (meaning instanceof StoreUnavailable && isReadOnly(meaning))
}

/** A connection to a standby would keep refusing writes, while a new one may find the new primary. */
function isReadOnly({ cause }: StoreUnavailable): boolean {
  return cause instanceof DatabaseError && cause.code === READ_ONLY
}

function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.message || ('code' in error ? String(error.code) : error.name)
}
