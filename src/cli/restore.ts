/** `parley restore`: puts a backup in the place of the configured database. */
import { loadDatabaseUrl } from '../config/load.ts'
import type { Restored } from '../store/backup.ts'
import { isPostgres, restoreDatabase } from '../store/open.ts'
import type { BackupOptions } from './backup.ts'
import { CommandError } from './command-error.ts'
import { databaseName } from './database-name.ts'
import { holdingsAsJson, holdingsLines } from './database-summary.ts'
import { printLine } from './output.ts'
import { restoreCommand } from './postgres-tools.ts'
import { writing } from './writing.ts'

export async function restore(file: string, { force, json, config }: BackupOptions): Promise<void> {
  const url = loadDatabaseUrl(process.env, config)
  if (isPostgres(url)) {
    throw new CommandError(
      `The database is a Postgres, which is restored by its own tools, into an empty database and while no server runs on it:\n\n  ${restoreCommand(url, file)}\n\nSee docs/backup.md.`,
    )
  }
  const { result, seconds } = await writing((options) =>
    restoreDatabase(url, file, { force: force ?? false, nowMs: Date.now(), ...options }),
  )
  const { holdings, keptAside } = result
  if (json) {
    const more = { kept_aside: keptAside, schema_steps: holdings.schemaSteps }
    return printLine(JSON.stringify({ file, seconds, ...holdingsAsJson(holdings), ...more }, null, 2))
  }
  printLine(`Restored ${file} to ${databaseName(url)} in ${seconds.toFixed(1)} s.\n`)
  for (const line of holdingsLines(holdings)) printLine(line)
  for (const line of whatFollows(result)) printLine(`\n${line}`)
}

function whatFollows({ holdings, keptAside }: Restored): string[] {
  const { pending, assigned } = holdings.jobs
  const says: string[] = []
  if (keptAside !== null) says.push(`The database that was here before is now ${keptAside}.`)
  if (holdings.schemaSteps > 0)
    says.push('It was written by an older Parley; the next start brings it up to date.')
  if (pending + assigned > 0) {
    says.push(
      `The next start runs the ${pending + assigned} jobs that are pending or assigned here, also those that have ended since the backup.`,
    )
  }
  says.push('Keys that were revoked since the backup are valid again: see docs/backup.md.')
  return says
}
