/** `parley migrate`: brings the database schema up to date without starting a server. */
import { loadDatabaseUrl } from '../config/file.ts'
import { migrateDatabase } from '../store/open.ts'
import { printLine } from './output.ts'

export async function migrate({ json, config }: { json?: true; config?: string }): Promise<void> {
  const steps = await migrateDatabase(loadDatabaseUrl(process.env, config))
  if (json) return printLine(JSON.stringify({ steps }, null, 2))
  printLine(
    steps === 0
      ? 'The schema is already up to date.'
      : `The schema is up to date: ${steps} ${steps === 1 ? 'migration was' : 'migrations were'} applied.`,
  )
}
