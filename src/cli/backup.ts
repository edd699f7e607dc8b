/** `parley backup`: the whole database into one file, beside a running server. */
import { loadDatabaseUrl } from '../config/load.ts'
import { backUpDatabase, isPostgres } from '../store/open.ts'
import { CommandError } from './command-error.ts'
import { databaseName } from './database-name.ts'
import { holdingsAsJson, holdingsLines, megabytes } from './database-summary.ts'
import { printLine } from './output.ts'
import { dumpCommand } from './postgres-tools.ts'
import { writing } from './writing.ts'

export interface BackupOptions {
  readonly force?: true
  readonly json?: true
  readonly config?: string
}

export async function backUp(file: string, { force, json, config }: BackupOptions): Promise<void> {
  const url = loadDatabaseUrl(process.env, config)
  if (isPostgres(url)) {
    throw new CommandError(
      `The database is a Postgres, which is backed up by its own tools, also while servers run:\n\n  ${dumpCommand(url, file)}\n\nSee docs/backup.md.`,
    )
  }
  const { result: holdings, seconds } = await writing((options) =>
    backUpDatabase(url, file, { force: force ?? false, ...options }),
  )
  if (json) return printLine(JSON.stringify({ file, seconds, ...holdingsAsJson(holdings) }, null, 2))
  printLine(
    `Backed up ${databaseName(url)} to ${file} in ${seconds.toFixed(1)} s: ${megabytes(holdings.bytes)} MB.\n`,
  )
  for (const line of holdingsLines(holdings)) printLine(line)
}
