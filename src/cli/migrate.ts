/** `parley migrate`: brings the schema up to date without starting a server. */
import { loadDatabaseUrl } from '../config/load.ts'
import { migrateDatabase } from '../store/open.ts'
import { say } from './output.ts'

export async function migrate({ json, config }: { json?: true; config?: string }): Promise<void> {
  const steps = await migrateDatabase(loadDatabaseUrl(process.env, config))
  if (json) return say(JSON.stringify({ steps }, null, 2))
  say(steps === 0 ? 'The schema is up to date.' : `The schema is up to date; ${steps} step(s) were taken.`)
}
