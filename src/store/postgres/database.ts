/**
 * The connections to Postgres: a pool of them, statements by name, and errors by what they mean (errors.ts). No query
 * waits without end: the server ends a long one, and a connection that does not answer at all is abandoned.
 */
import pg from 'pg'
import type { Row } from '../rows.ts'
import type { Methods, Operation, Sql, Steps } from '../sql.ts'
import { StoreUnavailable } from '../store.ts'
import { breaksConnection, meaningOf, OutcomeUnknown, Overruled } from './errors.ts'

/** How long a connection may take, and how long after its time limit the server may take to report that it ended a statement. */
const NETWORK_MS = 5_000
/** A node that is suspended during a transaction would hold row locks that the others skip. */
const IDLE_IN_TRANSACTION_MS = 10_000
const TRIES = 5
/**
 * Each of our statements finds its few rows by an index. By default the planner reads the whole queue and sorts it for
 * a claim when it has no statistics of the table yet, or keeps a plan from when the table was empty. Without an index it
 * still reads the whole table; then it must not consider that expensive enough to compile the statement. With these
 * settings one plan is right for all values, and planning each claim again would cost as much as the claim itself.
 */
const PLANNING =
  '-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off -c plan_cache_mode=force_generic_plan'

/** Prepared once on each connection, under its name. */
export interface Statement {
  readonly name: string
  readonly text: string
  /** Running it a second time changes nothing and returns the same, so it is run again if the connection broke. */
  readonly repeatable?: true
}

/** What runs statements: the pool, or one connection inside a transaction. */
export interface Queries {
  query(statement: Statement, values?: readonly unknown[]): Promise<Row[]>
}

export interface DatabaseOptions {
  readonly url: string
  readonly connections: number
  /** Whether statements are prepared by name; some poolers give each transaction another connection. */
  readonly prepare: boolean
  /** Far longer than any of our statements takes: one that reaches it is stuck behind a lock or a failing disk. */
  readonly statementMs: number
  /** How long the network may take; `NETWORK_MS` by default. */
  readonly networkMs?: number
}

/** The settings of every connection. @param statementMs null for no limit, as in a migration */
export function connectionSettings(
  url: string,
  statementMs: number | null,
  networkMs = NETWORK_MS,
): pg.ClientConfig {
  return {
    connectionString: withPlanning(url),
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

/** The address's own options are kept: a search_path, for one. */
function withPlanning(url: string): string {
  const address = new URL(url)
  const own = address.searchParams.get('options')
  address.searchParams.set('options', own === null ? PLANNING : `${own} ${PLANNING}`)
  return address.href
}

const BIGINT = 20

/** Times and counts fit a double; by default they would arrive as text. */
const numbersForBigints: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === BIGINT ? Number : pg.types.getTypeParser(oid, format as 'text'),
}

export class Database implements Queries {
  readonly #pool: pg.Pool
  readonly #prepare: boolean
  /** Runs every statement as a repeatable one. */
  readonly repeatable: Queries = {
    query: (statement, values) => this.query({ ...statement, repeatable: true }, values),
  }

  constructor({ url, connections, prepare, statementMs, networkMs }: DatabaseOptions) {
    this.#prepare = prepare
    const settings = connectionSettings(url, statementMs, networkMs)
    this.#pool = new pg.Pool({ ...settings, max: connections, idleTimeoutMillis: 60_000 })
    // The pool replaces a connection that breaks while it is idle.
    this.#pool.on('error', () => {})
  }

  /**
   * Runs one statement, which is a transaction of its own. Rejects with `OutcomeUnknown` if it may have run
   * nevertheless, and with another `StoreUnavailable` if it has not run but may be tried again.
   */
  query(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    const work = (client: pg.ClientBase) => this.#run(client, statement, values)
    return this.#retried(work, statement.repeatable ?? false)
  }

  /** Runs several in one transaction, which is rolled back when `work` rejects. */
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
    // A connection that breaks between two statements emits this; the next statement on it is rejected.
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

  /** A connection that breaks while it opens is tried once more: no statement was sent on it yet. */
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

/** The operations that both stores share, as methods on this database. */
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

/** Runs a statement that both stores share. */
export function queryOf(queries: Queries, { texts, values }: Sql): Promise<Row[]> {
  const text = texts.reduce((all, one, at) => `${all}$${at}${one}`)
  const name = NAMES.get(text) ?? `shared ${NAMES.size + 1}`
  NAMES.set(text, name)
  return queries.query({ name, text }, values)
}

/** Statements are prepared by name; these are named by their text. */
const NAMES = new Map<string, string>()
