/** Whether a Postgres is fit to hold jobs: what would break a promise stops the start, what weakens one is said. */
import { DatabaseProblem } from '../database-problem.ts'
import type { Queries } from './database.ts'

export const LEAST_VERSION = 14
/** Beyond that, what nodes say of times and what the database says differ for people who compare them. */
const CLOCK_DIFFERENCE_MS = 5_000

export interface Fitness {
  readonly version: string
  /** Differences that break a promise. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

/** Rejects with a `DatabaseProblem` naming what is wrong; tells the rest. */
export async function checkFitness(queries: Queries, onNote: (message: string) => void): Promise<void> {
  const { problems, warnings } = await fitnessOf(queries)
  if (problems.length > 0) throw new DatabaseProblem(problems.join(' '))
  for (const warning of warnings) onNote(warning)
}

export async function fitnessOf(queries: Queries): Promise<Fitness> {
  const sentMs = Date.now()
  const [row = {}] = await queries.query(LOOK)
  const middleMs = (sentMs + Date.now()) / 2
  const version = Number(row.version_num)
  const problems: string[] = []
  const warnings: string[] = []
  if (version < LEAST_VERSION * 10_000) {
    problems.push(`Postgres ${row.version} is too old; Parley needs ${LEAST_VERSION} or newer.`)
  }
  if (row.fsync === 'off') {
    problems.push(
      'The database runs with fsync=off, and a power cut would lose accepted jobs. Turn fsync on.',
    )
  }
  if (row.read_only === 'on' || row.standby === true) {
    problems.push('The database only reads: it is a standby. DATABASE_URL must lead to the primary.')
  }
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
  const difference = Number(row.now_ms) - middleMs
  if (Math.abs(difference) > CLOCK_DIFFERENCE_MS) {
    warnings.push(
      `the clocks of this machine and the database differ by ${Math.round(difference / 1000)} s; set both by NTP`,
    )
  }
  return { version: String(row.version), problems, warnings }
}

const LOOK = {
  name: '',
  text: `select
    current_setting('server_version_num') as version_num, current_setting('server_version') as version,
    current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
    current_setting('full_page_writes') as full_page_writes,
    current_setting('transaction_read_only') as read_only, pg_is_in_recovery() as standby,
    (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms`,
}
