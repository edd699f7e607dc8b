/** `parley restore`: replaces the configured database with a backup. */
import { loadDatabaseUrl } from '../config/file.ts'
import type { Restored } from '../store/backup.ts'
import { isPostgres, restoreDatabase } from '../store/open.ts'
import type { BackupOptions } from './backup.ts'
import { CommandError } from './command-error.ts'
import { databaseName } from './database-name.ts'
import { summaryJson, summaryLines } from './database-summary.ts'
import { printLine } from './output.ts'
import { restoreCommand } from './postgres-tools.ts'
import { writeWithProgress } from './write-with-progress.ts'

export async function restore(file: string, { force, json, config }: BackupOptions): Promise<void> {
  const url = loadDatabaseUrl(process.env, config)
  if (isPostgres(url)) {
    throw new CommandError(
      `The database is Postgres. Restore it with pg_restore into an empty database while no server uses it:\n\n  ${restoreCommand(url, file)}\n\nSee docs/backup.md.`,
    )
  }
  const { result, seconds } = await writeWithProgress((options) =>
    restoreDatabase(url, file, { force: force ?? false, nowMs: Date.now(), ...options }),
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
  notes.push('Keys that were revoked since the backup are valid again. See docs/backup.md.')
  return notes
}
