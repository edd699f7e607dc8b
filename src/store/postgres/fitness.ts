/** Checks a Postgres database. A server does not start on a database with problems. Warnings only inform the operator. */
import { randomBytes } from 'node:crypto'
import { type DatabaseCheck, DatabaseProblem } from '../database-problem.ts'
import type { Row } from '../rows.ts'
import { Database, type Queries, withClient } from './database.ts'

const LEAST_VERSION = 14
/** A larger difference causes a warning, because it misleads people who compare times of nodes with times of the database. */
const CLOCK_DIFFERENCE_MS = 5_000
/**
 * Databases with these encodings can store every character. With `SQL_ASCII`, Postgres does not check or convert texts, so it
 * returns them unchanged.
 */
const WHOLE_ENCODINGS = ['UTF8', 'SQL_ASCII']

interface Fitness {
  readonly version: string
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

/** Rejects with a `DatabaseProblem` if a server must not start on the database. `onNote` gets warnings. */
export async function checkFitness(queries: Queries, onNote: (message: string) => void): Promise<void> {
  const { problems, warnings } = await fitnessOf(queries)
  if (problems.length > 0) throw new DatabaseProblem(problems.join(' '))
  for (const warning of warnings) onNote(warning)
}

async function fitnessOf(queries: Queries): Promise<Fitness> {
  const sentMs = Date.now()
  const [row = {}] = await queries.query(LOOK)
  const differenceMs = Number(row.now_ms) - (sentMs + Date.now()) / 2
  return { version: String(row.version), problems: problemsOf(row), warnings: warningsOf(row, differenceMs) }
}

function problemsOf(row: Row): string[] {
  const problems: string[] = []
  if (Number(row.version_num) < LEAST_VERSION * 10_000) {
    problems.push(`Postgres ${row.version} is too old; Parley needs ${LEAST_VERSION} or newer.`)
  }
  if (row.fsync === 'off') {
    problems.push(
      'The database runs with fsync=off, and a power cut would lose accepted jobs. Turn fsync on.',
    )
  }
  if (!WHOLE_ENCODINGS.includes(String(row.encoding))) {
    problems.push(
      `The encoding of the database is ${row.encoding}, which lacks characters that conversations and answers contain. Create a database with the encoding UTF8.`,
    )
  }
  if (row.isolation !== 'read committed') {
    problems.push(
      `The isolation level of transactions is ${row.isolation}, with which nodes could exceed caps together. Set default_transaction_isolation of the role ${row.role} to read committed.`,
    )
  }
  if (row.read_only === 'on' || row.standby === true) {
    problems.push('The database is read-only: it is a standby. DATABASE_URL must lead to the primary.')
  }
  if (row.schema === null) {
    problems.push('The schema that search_path names does not exist. Create it.')
  } else if (row.may_create !== true) {
    problems.push(
      `The role ${row.role} may not create tables in the schema ${row.schema}: grant create on schema ${row.schema} to ${row.role}.`,
    )
  }
  if (Number(row.forbidden) > 0) {
    problems.push(
      `The role ${row.role} may not read and write all tables of the schema ${row.schema}: it must own them, or be granted select, insert, update and delete.`,
    )
  }
  return problems
}

function warningsOf(row: Row, differenceMs: number): string[] {
  const warnings: string[] = []
  if (row.full_page_writes === 'off') {
    warnings.push(
      'full_page_writes is off: unless the file system writes pages whole, a power cut may corrupt the database',
    )
  }
  if (row.synchronous_commit === 'off') {
    warnings.push(
      'synchronous_commit is off: a crash of the database may lose jobs accepted in the moment before it',
    )
  }
  if (row.owns === false) {
    warnings.push(
      `the role ${row.role} does not own the tables, so this node leaves it to nodes of their owner to create and drop the partitions of jobs`,
    )
  }
  if (Math.abs(differenceMs) > CLOCK_DIFFERENCE_MS) {
    const seconds = Math.round(differenceMs / 1000)
    warnings.push(`the database's clock differs from this machine's by ${seconds} s; set both by NTP`)
  }
  return warnings
}

const LOOK = {
  name: '',
  text: `select
    current_setting('server_version_num') as version_num, current_setting('server_version') as version,
    current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
    current_setting('server_encoding') as encoding,
    current_setting('full_page_writes') as full_page_writes, current_setting('transaction_isolation') as isolation,
    current_setting('transaction_read_only') as read_only, pg_is_in_recovery() as standby,
    current_user as role, current_schema() as schema,
    has_schema_privilege(current_schema(), 'create') as may_create,
    (select count(*) from pg_class c where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
      and c.relname in ('jobs', 'jobs_default', 'open_jobs', 'outcomes', 'outcomes_default', 'accounts', 'keys', 'callbacks',
        'nodes', 'usage', 'usage_deltas', 'cancelled_jobs', 'audit', 'crashes', 'quota_sums', 'quota_deltas', 'kept_answers',
        'idempotency', 'probe', 'files', 'file_pieces', 'reruns', 'batches', 'batch_lines', 'admin_tokens', 'rates',
        'schema_version')
      and not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
        and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))) as forbidden,
    (select bool_and(pg_has_role(c.relowner, 'usage')) from pg_class c
      where c.relnamespace = current_schema()::regnamespace and c.relname in ('jobs', 'outcomes')) as owns,
    (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms`,
}

const STATEMENT_MS = 5000
const NOTIFICATION_MS = 2000

/** The check for `parley check` changes nothing. */
export async function checkPostgres(url: string): Promise<DatabaseCheck> {
  const database = new Database({ url, connections: 1, prepare: false, statementMs: STATEMENT_MS })
  try {
    const { version, problems, warnings } = await fitnessOf(database)
    const { hostname, port, pathname } = new URL(url)
    const description = `Postgres ${version} at ${hostname}${port && `:${port}`}${pathname}`
    if (problems.length > 0) return { description, problems, warnings }
    const silent = (await notificationsArrive(url, database)) ? [] : [NO_NOTIFICATIONS]
    return { description, problems, warnings: [...warnings, ...silent] }
  } finally {
    await database.close()
  }
}

const NO_NOTIFICATIONS =
  'notifications (LISTEN) do not arrive, as behind a pooler that shares connections between transactions: nodes then poll the database every second, and a job that another node runs may be answered up to a second later'

async function notificationsArrive(url: string, database: Database): Promise<boolean> {
  const channel = `parley_check_${randomBytes(6).toString('hex')}`
  try {
    return await withClient(url, STATEMENT_MS, async (client) => {
      const arrived = new Promise<boolean>((resolve) => {
        client.once('notification', () => resolve(true))
        setTimeout(() => resolve(false), NOTIFICATION_MS).unref()
      })
      await client.query(`listen ${channel}`)
      await database.query({ name: '', text: `select pg_notify('${channel}', '')` })
      return arrived
    })
  } catch {
    return false
  }
}
