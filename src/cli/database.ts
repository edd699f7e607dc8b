/**
 * `parley migrate` updates the database schema without starting a server. `parley backup` copies a SQLite database into one
 * file, even while servers run. `parley restore` replaces the database with such a file. For Postgres, both print which command
 * to use instead.
 */
import { loadDatabaseUrl } from '../config/file.ts'
import { isPostgres, migrateDatabase, openForOperator, sqlitePath } from '../store/open.ts'
import type { OperatorStore } from '../store/operator-store.ts'
import type { Restored, WriteOptions } from '../store/sqlite/backup.ts'
import type { DatabaseSummary } from '../store/sqlite/database-summary.ts'
import { CommandError, counted, printLine } from './input-output.ts'
import type { DefaultOptions } from './options.ts'
import { onShutdownSignal } from './shutdown-signals.ts'

export async function migrate({ json, config }: DefaultOptions): Promise<void> {
  const steps = await migrateDatabase(loadDatabaseUrl(process.env, config))
  if (json) return printLine(JSON.stringify({ steps }, null, 2))
  printLine(
    steps === 0
      ? 'The schema is already up to date.'
      : `The schema is up to date: ${counted(steps, 'migration was', 'migrations were')} applied.`,
  )
}

export interface BackupOptions extends DefaultOptions {
  readonly force?: true
}

export async function backUp(file: string, { force, json, config }: BackupOptions): Promise<void> {
  const url = loadDatabaseUrl(process.env, config)
  if (isPostgres(url)) {
    throw new CommandError(
      `The database is Postgres. Back it up with pg_dump, which works while servers run:\n\n  ${dumpCommand(url, file)}\n\nSee docs/backup.md.`,
    )
  }
  const { backUpFile } = await import('../store/sqlite/backup.ts')
  const { result: summary, seconds } = await writeWithProgress((options) =>
    backUpFile(sqlitePath(url), file, { force: force ?? false, ...options }),
  )
  if (json) return printLine(JSON.stringify({ file, seconds, ...summaryJson(summary) }, null, 2))
  printLine(
    `Backed up ${databaseName(url)} to ${file} in ${seconds.toFixed(1)} s: ${megabytes(summary.bytes)} MB.\n`,
  )
  for (const line of summaryLines(summary)) printLine(line)
}

export async function restore(file: string, { force, json, config }: BackupOptions): Promise<void> {
  const url = loadDatabaseUrl(process.env, config)
  if (isPostgres(url)) {
    throw new CommandError(
      `The database is Postgres. Restore it with pg_restore into an empty database while no server uses it:\n\n  ${restoreCommand(url, file)}\n\nSee docs/backup.md.`,
    )
  }
  const { restoreFile } = await import('../store/sqlite/backup.ts')
  const { result, seconds } = await writeWithProgress((options) =>
    restoreFile(file, sqlitePath(url), { force: force ?? false, nowMs: Date.now(), ...options }),
  )
  const { summary, keptAside } = result
  if (json) {
    const more = { kept_aside: keptAside, schema_steps: summary.schemaSteps }
    return printLine(JSON.stringify({ file, seconds, ...summaryJson(summary), ...more }, null, 2))
  }
  printLine(`Restored ${file} to ${databaseName(url)} in ${seconds.toFixed(1)} s.\n`)
  for (const line of summaryLines(summary)) printLine(line)
  for (const note of notesOn(result)) printLine(`\n${note}`)
}

function notesOn({ summary, keptAside }: Restored): string[] {
  const { pending, assigned } = summary.jobs
  const notes: string[] = []
  if (keptAside !== null) notes.push(`The previous database was renamed to ${keptAside}.`)
  if (summary.schemaSteps > 0)
    notes.push('An older version of Parley wrote the backup. The next start brings its schema up to date.')
  if (pending + assigned > 0) {
    notes.push(
      `The next start runs the ${pending + assigned} jobs that are pending or assigned in the backup, including jobs that have finished since the backup.`,
    )
  }
  notes.push(
    'Keys that were revoked since the backup are valid again, and so are admin tokens. See docs/backup.md.',
  )
  return notes
}

function summaryLines(summary: DatabaseSummary): string[] {
  const { accounts, keys, jobs, callbacksOwed, newestJobAtMs } = summary
  const rows: [string, number][] = [
    ['accounts', accounts],
    ['keys', keys],
    ...Object.entries(jobs).map(([status, count]): [string, number] => [`jobs ${status}`, count]),
    ['callbacks owed', callbacksOwed],
  ]
  const lines = rows.map(([name, count]) => `${name.padEnd(16)} ${String(count).padStart(10)}`)
  return newestJobAtMs === null
    ? lines
    : [...lines, `${'newest job'.padEnd(16)} ${new Date(newestJobAtMs).toISOString()}`]
}

function summaryJson(summary: DatabaseSummary): object {
  const { bytes, schema, accounts, keys, jobs, callbacksOwed, newestJobAtMs } = summary
  return {
    bytes,
    schema,
    accounts,
    keys,
    jobs,
    callbacks_owed: callbacksOwed,
    newest_job_at: newestJobAtMs === null ? null : Math.floor(newestJobAtMs / 1000),
  }
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}

/** libpq has these options of database URLs under the same names. It would reject the others. */
const SHARED_OPTIONS = ['host', 'port', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey']

function dumpCommand(url: string, file: string): string {
  return `pg_dump --format=custom --no-owner --file=${quoted(file)} ${quoted(addressOf(url))}`
}

function restoreCommand(url: string, file: string): string {
  return `pg_restore --no-owner --exit-on-error --single-transaction --dbname=${quoted(addressOf(url))} ${quoted(file)}`
}

/**
 * The password is removed, because other users can see the arguments of commands. The Postgres tools ask for the password, or
 * read it from PGPASSWORD or ~/.pgpass.
 */
function addressOf(url: string): string {
  const address = new URL(url)
  address.password = ''
  address.hash = ''
  for (const name of new Set(address.searchParams.keys())) {
    if (!SHARED_OPTIONS.includes(name)) address.searchParams.delete(name)
  }
  // libpq has no `no-verify`. Its `require` does the same.
  if (address.searchParams.get('sslmode') === 'no-verify') address.searchParams.set('sslmode', 'require')
  return address.href
}

function quoted(text: string): string {
  return /^[\w./:@%=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

type ProgressOptions = Pick<WriteOptions, 'signal' | 'onProgress'>

/** A signal aborts the write, which deletes the partial file. */
async function writeWithProgress<T>(
  write: (options: ProgressOptions) => Promise<T>,
): Promise<{ readonly result: T; readonly seconds: number }> {
  const startedMs = performance.now()
  const controller = new AbortController()
  const progress = new Progress(process.stderr)
  onShutdownSignal((reason) => {
    progress.end()
    controller.abort()
    killSelf(reason === 'SIGINT' ? 'SIGINT' : 'SIGTERM')
  })
  try {
    const result = await write({
      signal: controller.signal,
      onProgress: (bytes) => progress.show(Math.round(bytes / 1e6), 'MB'),
    })
    return { result, seconds: (performance.now() - startedMs) / 1000 }
  } finally {
    progress.end()
  }
}

/** `process.exit` would wait for the storage thread, which SQLite blocks until everything is written. */
function killSelf(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

/** Messages must not show the user, the password or the options, which can contain a password. */
export function databaseName(address: string): string {
  if (!isPostgres(address)) return `sqlite:${sqlitePath(address)}`
  const { host, pathname } = new URL(address)
  return `postgres://${host}${pathname}`
}

const EVERY_MS = 1000

/** Shows progress on one line of a terminal. Prints nothing without a terminal. */
export class Progress {
  readonly #out: NodeJS.WriteStream
  readonly #startedMs = performance.now()
  #shownMs = this.#startedMs
  #shown = false

  constructor(out: NodeJS.WriteStream) {
    this.#out = out
  }

  show(count: number, unit = 'jobs'): void {
    const nowMs = performance.now()
    if (!this.#out.isTTY || nowMs < this.#shownMs + EVERY_MS) return
    this.#shownMs = nowMs
    this.#shown = true
    const rate = Math.round(count / ((nowMs - this.#startedMs) / 1000))
    this.#out.write(`\r${count} ${unit}, ${rate} a second\x1b[K`)
  }

  /** Clears the line, so that other output can follow. */
  end(): void {
    if (this.#shown) this.#out.write('\r\x1b[K')
  }
}

export async function withOperatorStore<T>(
  configFile: string | undefined,
  work: (store: OperatorStore) => Promise<T>,
): Promise<T> {
  const store = await openForOperator(loadDatabaseUrl(process.env, configFile))
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}
