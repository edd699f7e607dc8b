/** `parley migrate`: brings the schema up to date without starting a server. */
import { loadDatabaseUrl } from '../config/load.ts'
import { sqlitePath } from '../store/open.ts'
import { migrate, openFile } from '../store/sqlite/file.ts'
import { say } from './say.ts'

export function migrateDatabase(configFile: string | undefined): void {
  const db = openFile(sqlitePath(loadDatabaseUrl(process.env, configFile)))
  try {
    const steps = migrate(db)
    say(steps === 0 ? 'The schema is up to date.' : `The schema is up to date; ${steps} step(s) were taken.`)
  } finally {
    db.close()
  }
}
