/**
 * Connections to Postgres: a pool, named statements, and what errors mean. Except in migrations, scrubs and transfers, no query
 * waits forever: the server ends a slow one, and a connection that does not respond is closed.
 */
import pg, { DatabaseError } from 'pg'
import type { Row } from '../rows.ts'
import type { Methods, Operation, Sql, Steps } from '../sql.ts'
import { StoreUnavailable, UnknownAccount, WriteRejected } from '../store.ts'

/** Connecting may take this long. The error of a statement may take this long to arrive after the statement's time limit. */
const NETWORK_MS = 5_000
/**
 * A node that is suspended during a transaction holds row locks for at most this long. Claims on other nodes skip the locked
 * rows, but some statements wait for them, for example those that lock an account.
 */
const IDLE_IN_TRANSACTION_MS = 10_000
const TRIES = 5
/**
 * Nearly every statement finds its few rows by an index. While a table has no statistics, the planner would otherwise read and
 * sort the whole queue for a claim. A statement that must read a whole table looks expensive to the planner, but compiling it
 * (JIT) would not pay. One plan suits all values, and planning each claim would cost as much as the claim.
 */
const PLANNING =
  '-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off -c plan_cache_mode=force_generic_plan'
/**
 * A statement that waits for a lock must see what the lock's last holder committed. At other isolation levels it would keep an
 * older snapshot, so two nodes could accept jobs that exceed a cap together.
 */
const ISOLATION = '-c default_transaction_isolation=read\\ committed'

export interface Statement {
  readonly name: string
  readonly text: string
  /** The statement is repeated if the connection breaks, so a second run must do no harm, and return a correct result. */
  readonly repeatable?: true
}

export interface Queries {
  query(statement: Statement, values?: readonly unknown[]): Promise<Row[]>
}

export interface DatabaseOptions {
  readonly url: string
  readonly connections: number
  /** This must be false behind poolers that share connections, because a prepared statement belongs to a connection. */
  readonly prepare: boolean
  /** The server ends a statement that takes longer, for example because it waits for a lock or a failing disk. */
  readonly statementMs: number
  readonly networkMs?: number
}

/** @param statementMs null for no time limit, as in a migration */
export function connectionSettings(
  url: string,
  statementMs: number | null,
  networkMs = NETWORK_MS,
): pg.ClientConfig {
  return {
    connectionString: withOptions(url),
    application_name: 'parley',
    connectionTimeoutMillis: networkMs,
    keepAlive: true,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    ...(statementMs !== null && {
      statement_timeout: statementMs,
      query_timeout: statementMs + networkMs,
    }),
    types: numbersForBigints,
  }
}

export async function withClient<T>(
  url: string,
  statementMs: number | null,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client(connectionSettings(url, statementMs))
  client.on('error', () => {})
  try {
    await client.connect()
    return await work(client)
  } finally {
    await client.end()
  }
}

/** The URL may contain options, such as a search_path, which must be kept. */
function withOptions(url: string): string {
  const address = new URL(url)
  const own = address.searchParams.get('options')
  const ours = `${PLANNING} ${ISOLATION}`
  address.searchParams.set('options', own === null ? ours : `${own} ${ours}`)
  return address.href
}

const BIGINT = 20

/** The driver returns bigint as text. Parley's times and counts fit into a double. */
const numbersForBigints: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === BIGINT ? Number : pg.types.getTypeParser(oid, format as 'text'),
}

export class Database implements Queries {
  readonly #pool: pg.Pool
  readonly #prepare: boolean
  readonly repeatable: Queries = {
    query: (statement, values) => this.query({ ...statement, repeatable: true }, values),
  }

  constructor({ url, connections, prepare, statementMs, networkMs }: DatabaseOptions) {
    this.#prepare = prepare
    const settings = connectionSettings(url, statementMs, networkMs)
    this.#pool = new pg.Pool({ ...settings, max: connections, idleTimeoutMillis: 60_000 })
    // The pool replaces a connection that breaks while idle, so the error needs no handling.
    this.#pool.on('error', () => {})
  }

  /**
   * Rejects with `OutcomeUnknown` if the statement may have run, and with another `StoreUnavailable` if it did not run and can
   * be retried.
   */
  query(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    const work = (client: pg.ClientBase) => this.#run(client, statement, values)
    return this.#retried(work, statement.repeatable ?? false)
  }

  /** The transaction is rolled back if `work` rejects. */
  transaction<T>(work: (queries: Queries) => Promise<T>): Promise<T> {
    return this.#retried(async (client) => {
      await this.#run(client, BEGIN)
      try {
        const result = await work({ query: (statement, values = []) => this.#run(client, statement, values) })
        await this.#run(client, COMMIT)
        return result
      } catch (error) {
        if (!breaksConnection(error)) await this.#run(client, ROLLBACK)
        throw error
      }
    })
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }

  async #retried<T>(work: (client: pg.ClientBase) => Promise<T>, repeatable = false): Promise<T> {
    for (let tried = 1; ; tried++) {
      try {
        return await this.#withClient(work)
      } catch (error) {
        const again = error instanceof Overruled || (repeatable && error instanceof OutcomeUnknown)
        if (!again || tried === TRIES) throw error
      }
    }
  }

  async #run(
    client: pg.ClientBase,
    { name, text }: Statement,
    values: readonly unknown[] = [],
  ): Promise<Row[]> {
    try {
      const { rows } = await client.query<Row>({ text, values: [...values], ...(this.#prepare && { name }) })
      return rows
    } catch (error) {
      throw meaningOf(error)
    }
  }

  async #withClient<T>(work: (client: pg.ClientBase) => Promise<T>): Promise<T> {
    const client = await this.#connect()
    let broken = false
    // A connection that breaks between two statements emits an error. The next statement on it rejects.
    const onError = () => {
      broken = true
    }
    client.on('error', onError)
    try {
      return await work(client)
    } catch (error) {
      broken ||= breaksConnection(error) || error instanceof Overruled
      throw error
    } finally {
      client.off('error', onError)
      client.release(broken)
    }
  }

  /** Opening a connection is tried twice, because no statement was sent yet. */
  #connect(): Promise<pg.PoolClient> {
    return this.#pool
      .connect()
      .catch(() => this.#pool.connect())
      .catch((error: Error & { code?: string }) => {
        const reason = error.message || error.code
        throw new StoreUnavailable(`The database cannot be reached: ${reason}`, { cause: error })
      })
  }
}

const BEGIN = { name: 'begin', text: 'begin' }
const COMMIT = { name: 'commit', text: 'commit' }
const ROLLBACK = { name: 'rollback', text: 'rollback' }

export function methodsOn<Table extends Readonly<Record<string, Operation<never, unknown>>>>(
  database: Database,
  table: Table,
): Methods<Table> {
  const methods = Object.entries(table).map(([name, { kind, steps }]) => [
    name,
    (...args: never) =>
      kind === 'write'
        ? database.transaction((queries) => runSteps(queries, steps(...args)))
        : runSteps(database.repeatable, steps(...args)),
  ])
  return Object.fromEntries(methods)
}

async function runSteps<Result>(queries: Queries, steps: Steps<Result>): Promise<Result> {
  let next = steps.next()
  while (!next.done) next = steps.next(await queryOf(queries, next.value))
  return next.value
}

export function queryOf(queries: Queries, { texts, values }: Sql): Promise<Row[]> {
  const text = texts.reduce((all, one, at) => `${all}$${at}${one}`)
  const name = NAMES.get(text) ?? `shared ${NAMES.size + 1}`
  NAMES.set(text, name)
  return queries.query({ name, text }, values)
}

/** Statements are prepared by name, so each shared text gets a name. */
const NAMES = new Map<string, string>()

/** The operation may have run, or may still be running, because the connection broke. */
export class OutcomeUnknown extends StoreUnavailable {}

/** The operation had no effect, because of a concurrent operation or a stale plan. `Database` retries it at once. */
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

/** @param error the rejection of a query that was sent, so the query may have run */
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
