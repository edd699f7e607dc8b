/** `parley scrub`: removes deleted data from the disk as far as the database can. */
import { scrubAction } from '../admin/actions/jobs.ts'
import { CommandError } from './command-error.ts'
import { printLine } from './output.ts'
import { performAction } from './with-operator-store.ts'

export async function scrub({ json, config }: { json?: true; config?: string }): Promise<void> {
  const reason = await performAction(config, (store) => scrubAction(store))
  if (reason !== null) throw new CommandError(`The database was not scrubbed: ${reason}. ${NEXT_STEPS}`)
  if (json) return printLine(JSON.stringify({ scrubbed: true }, null, 2))
  printLine(SCRUBBED)
}

/** @param what for example `Job X` */
export function notScrubbed(what: string, reason: string): CommandError {
  return new CommandError(`${what} was deleted, but not scrubbed from the disk: ${reason}. ${NEXT_STEPS}`)
}

/** What happened to the deleted data on the disk. */
export function afterDeletion(scrub: boolean): string {
  return scrub
    ? SCRUBBED
    : 'Its data stays in free pages on the disk until they are reused. Run `parley scrub` to remove it now.'
}

/** Describes both databases, because the command does not know which one is used. */
const SCRUBBED =
  'The database is scrubbed: a SQLite file no longer contains deleted data; Postgres overwrites deleted rows over time.'
const NEXT_STEPS =
  'Wait until backups, copies and open queries have finished, make sure that there is enough free disk space, and run `parley scrub`.'
