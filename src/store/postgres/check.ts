/** What `parley check` reports about a Postgres, without changing anything in it. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { DatabaseCheck } from '../database-check.ts'
import { connectionSettings, Database } from './database.ts'
import { fitnessOf } from './fitness.ts'

const STATEMENT_MS = 5000
/** A notification that has not arrived by then does not arrive at all. */
const NOTIFICATION_MS = 2000

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
  const client = new pg.Client(connectionSettings(url, STATEMENT_MS))
  client.on('error', () => {})
  try {
    await client.connect()
    const arrived = new Promise<boolean>((resolve) => {
      client.once('notification', () => resolve(true))
      setTimeout(() => resolve(false), NOTIFICATION_MS).unref()
    })
    await client.query(`listen ${channel}`)
    await database.query({ name: '', text: `select pg_notify('${channel}', '')` })
    return await arrived
  } catch {
    return false
  } finally {
    await client.end()
  }
}
