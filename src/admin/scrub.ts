/**
 * Scrubs the database after a deletion. If scrubbing fails, the reason is returned instead of thrown, because the deletion has
 * succeeded.
 */
import type { OperatorStore } from '../store/operator-store.ts'
import { Type } from '../typed-schema.ts'

/** Returns null if the database was scrubbed, otherwise why it was not. */
export async function tryScrub(store: Pick<OperatorStore, 'scrub'>): Promise<string | null> {
  try {
    await store.scrub()
    return null
  } catch (error) {
    return messageOf(error)
  }
}

/** Returns the message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** A field of all actions that delete data. */
export const scrubField = Type.Boolean({
  description:
    'Whether to scrub deleted data from the disk; `true` if absent. On SQLite this rewrites the whole file and blocks other writes meanwhile.',
})

export const NO_SCRUB = [
  '--no-scrub',
  'do not scrub: deleted data stays in free pages on the disk until they are reused (run `parley scrub` later)',
] as const

export const SCRUB_HELP = `
Scrubbing removes deleted data from the disk as far as the database can. On SQLite it rewrites the whole file, which needs
as much free disk space as the file takes, both next to the file and for temporary files (in SQLITE_TMPDIR, TMPDIR or
/var/tmp). Other writes wait until it has finished; after 5 s, a running server responds to new jobs with 503. On Postgres
it vacuums the tables. Backups and log files are not changed. The audit log still shows what was deleted and by whom.`

/** Describes both kinds of database, because a command does not know which one is used. */
export const SCRUBBED =
  'The database is scrubbed: a SQLite file no longer contains deleted data; Postgres overwrites deleted rows over time.'

/** Describes what happened to the deleted data on the disk. */
export function afterDeletion(scrub: boolean): string {
  return scrub
    ? SCRUBBED
    : 'Its data stays in free pages on the disk until they are reused. Run `parley scrub` to remove it now.'
}
