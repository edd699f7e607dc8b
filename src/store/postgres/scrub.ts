/** Removes deleted data from the disk, in Postgres, as far as the database can. */
import pg from 'pg'
import type { AdminActionStore } from '../admin-action-store.ts'
import { connectionSettings } from './database.ts'
import { meaningOf } from './errors.ts'

export function scrubOperations(url: string): Pick<AdminActionStore, 'scrub'> {
  return { scrub: () => vacuum(url) }
}

/**
 * On a connection of its own: a vacuum runs in no transaction and has no time limit. Tables that the role does not
 * own are left to autovacuum.
 */
async function vacuum(url: string): Promise<void> {
  const client = new pg.Client(connectionSettings(url, null))
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query(`vacuum ${DELETED_FROM.join(', ')}`)
  } catch (error) {
    throw meaningOf(error)
  } finally {
    await client.end()
  }
}

const DELETED_FROM = [
  'jobs',
  'outcomes',
  'callbacks',
  'kept_answers',
  'cancelled_jobs',
  'crashes',
  'accounts',
  'keys',
  'idempotency',
  'usage',
  'usage_deltas',
  'quota_sums',
  'quota_deltas',
]
