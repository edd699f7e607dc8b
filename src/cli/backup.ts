/** `parley backup`: copies the whole database into one file while servers may be running. */
import { loadDatabaseUrl } from '../config/file.ts'
import { backUpDatabase, isPostgres } from '../store/open.ts'
import { CommandError } from './command-error.ts'
import { databaseName } from './database-name.ts'
import { megabytes, summaryJson, summaryLines } from './database-summary.ts'
import { printLine } from './output.ts'
import { dumpCommand } from './postgres-tools.ts'
import { writeWithProgress } from './write-with-progress.ts'

export interface BackupOptions {
  readonly force?: true
  readonly json?: true
  readonly config?: string
}

export async function backUp(file: string, { force, json, config }: BackupOptions): Promise<void> {
  const url = loadDatabaseUrl(process.env, config)
  if (isPostgres(url)) {
    throw new CommandError(
      `The database is Postgres. Back it up with pg_dump, which works while servers run:\n\n  ${dumpCommand(url, file)}\n\nSee docs/backup.md.`,
    )
  }
  const { result: summary, seconds } = await writeWithProgress((options) =>
    backUpDatabase(url, file, { force: force ?? false, ...options }),
  )
  if (json) return printLine(JSON.stringify({ file, seconds, ...summaryJson(summary) }, null, 2))
  printLine(
    `Backed up ${databaseName(url)} to ${file} in ${seconds.toFixed(1)} s: ${megabytes(summary.bytes)} MB.\n`,
  )
  for (const line of summaryLines(summary)) printLine(line)
}
