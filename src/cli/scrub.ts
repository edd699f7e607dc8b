/** `parley scrub`: has what was deleted leave the disk. */
import { scrub as scrubbing } from '../admin/actions/jobs.ts'
import { CommandError } from './command-error.ts'
import { printLine } from './output.ts'
import { onRecord } from './with-operator-store.ts'

export async function scrub({ json, config }: { json?: true; config?: string }): Promise<void> {
  const why = await onRecord(config, (store) => scrubbing(store))
  if (why !== null) throw new CommandError(`The database is not scrubbed: ${why}. ${HOW_TO_GO_ON}`)
  if (json) return printLine(JSON.stringify({ scrubbed: true }, null, 2))
  printLine(SCRUBBED)
}

/** @param what such as `Job X` */
export function notScrubbed(what: string, why: string): CommandError {
  return new CommandError(`${what} is deleted, but not scrubbed from the disk: ${why}. ${HOW_TO_GO_ON}`)
}

/** What is said of something that was deleted, in the end. */
export function scrubWords(scrub: boolean): string {
  return scrub
    ? SCRUBBED
    : 'What it held stays in free pages of the disk until they are written again; `parley scrub` makes it leave.'
}

/** True of both stores: which it was, the reader knows. */
const SCRUBBED =
  'The database is scrubbed: a SQLite file is free of what was deleted, a Postgres writes over it in its own time.'
const HOW_TO_GO_ON =
  'Let what reads the database come to its end (a backup, a copy, an open query), see to free disk, and run `parley scrub`.'
