/**
 * Connections to Postgres: a pool, named statements, and errors by what they mean (errors.ts). No query waits forever: the
 * server ends a slow one, and a connection that does not respond is closed.
 */
import pg from 'pg'
import type { Row } from '../rows.ts'
import type { Methods, Operation, Sql, Steps } from '../sql.ts'
import { StoreUnavailable } from '../store.ts'
import { breaksConnection, meaningOf, OutcomeUnknown, Overruled } from './errors.ts'

/** The time limit of connecting. After its time limit, the error of a statement may take this long to arrive. */
const NETWORK_MS = 5_000
/** A node that is suspended during a transaction holds row locks for at most this long. Other nodes skip the locked rows. */
const IDLE_IN_TRANSACTION_MS = 10_000
const TRIES = 5
/**
 * Each statement finds its few rows by an index. While a table has no statistics, the planner would otherwise read and sort the
 * whole queue for a claim, and could keep a plan from when the table was empty. A statement that must read a whole table looks
 * expensive to the planner, but compiling it (JIT) would not pay. One plan suits all values, and planning each claim would cost
 * as much as the claim.
 */
const PLANNING =
  '-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off -c plan_cache_mode=force_generic_plan'
/**
 * A statement that waits for a lock must see what the lock's last holder committed. At other levels it keeps an older snapshot,
 * so two nodes could accept jobs that exceed a cap together.
 */
const ISOLATION = '-c default_transaction_isolation=read\\ committed'

/** A statement that is prepared under its name, once on each connection. */
export interface Statement {
  readonly name: string
  readonly text: string
  /**
   * Present if a second run changes nothing and returns the same. Then the statement is repeated after the connection broke.
   */
  readonly repeatable?: true
}

export interface Queries {
  query(statement: Statement, values?: readonly unknown[]): Promise<Row[]>
}

export interface DatabaseOptions {
  readonly url: string
  /** Maximum connections of this node. */
  readonly connections: number
  /**
   * False behind poolers that change the connection between transactions, because prepared statements belong to a connection.
   */
  readonly prepare: boolean
  /** A statement that takes longer is blocked by a lock or a failing disk, and is ended. */
  readonly statementMs: number
  /** The time limit of connecting, also added to that of each statement for the network. `NETWORK_MS` if absent. */
  readonly networkMs?: number
}

/** @param statementMs the time limit of statements; null for none, as in a migration */
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

/**
 * Runs the work on a new connection, which it closes afterwards.
 * @param statementMs as for `connectionSettings`
 */
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

/** Keeps options that the URL contains, such as a search_path. */
function withOptions(url: string): string {
  const address = new URL(url)
  const own = address.searchParams.get('options')
  const ours = `${PLANNING} ${ISOLATION}`
  address.searchParams.set('options', own === null ? ours : `${own} ${ours}`)
  return address.href
}

const BIGINT = 20

/** Parses bigint as a number, because Parley's times and counts fit into a double. The driver's default is text. */
const numbersForBigints: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === BIGINT ? Number : pg.types.getTypeParser(oid, format as 'text'),
}

export class Database implements Queries {
  readonly #pool: pg.Pool
  readonly #prepare: boolean
  /** Runs every statement as if it were repeatable. */
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
   * Runs one statement in a transaction of its own. Rejects with `OutcomeUnknown` if the statement may have run, and with
   * another `StoreUnavailable` if it did not run and can be retried.
   */
  query(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    const work = (client: pg.ClientBase) => this.#run(client, statement, values)
    return this.#retried(work, statement.repeatable ?? false)
  }

  /** Runs statements in one transaction, which is rolled back if `work` rejects. */
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

  /** Retries once if the connection breaks while it opens, because no statement was sent yet. */
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

/** Turns operations that both stores share into methods that run on this database. */
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

/** Runs a statement of an operation that both stores share. */
export function queryOf(queries: Queries, { texts, values }: Sql): Promise<Row[]> {
  const text = texts.reduce((all, one, at) => `${all}$${at}${one}`)
  const name = NAMES.get(text) ?? `shared ${NAMES.size + 1}`
  NAMES.set(text, name)
  return queries.query({ name, text }, values)
}

/** The names of shared statements, by their text. Postgres prepares a statement under its name. */
const NAMES = new Map<string, string>()
