/** Finds out whether there is a run to go on with, and whether it is this one. */
import { randomBytes } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { CommandError } from '../command-error.ts'
import { Journal, type RunHeader } from './journal.ts'

/** The journal of the run that is gone on with, or of a new one, which is made only when there is something to write. */
export class OpenedJournal {
  #journal: Journal | null
  readonly #make: () => Journal

  constructor(journal: Journal | null, make: () => Journal) {
    this.#journal = journal
    this.#make = make
  }

  wasSent(index: number): boolean {
    const journal = this.#journal
    if (journal === null) return false
    return journal.jobIds.has(index) || journal.hasEnded(index) || journal.isInDoubt(index)
  }

  begun(): Journal {
    this.#journal ??= this.#make()
    return this.#journal
  }

  close(): void {
    this.#journal?.close()
  }
}

/** Refuses what would lose an earlier run or its results. `restart` loses them. */
export function openJournal(path: string, out: string, header: RunHeader, restart: boolean): OpenedJournal {
  const make = () => Journal.create(path, randomBytes(16).toString('hex'), header)
  const found = restart ? null : Journal.open(path)
  if (found === null) {
    if (!restart && out !== '-' && existsSync(out) && statSync(out).isFile()) {
      throw new CommandError(
        `${out} exists, and is not of an unfinished run. Give another --out; --restart sends everything and replaces it.`,
      )
    }
    return new OpenedJournal(null, make)
  }
  const changed = changeOf(found.header, header)
  if (changed !== null) {
    found.close()
    throw new CommandError(
      `${path} is of a run that did not finish, and ${changed} since. Put that back to go on with it; --restart begins anew, and pays for everything again.`,
    )
  }
  return new OpenedJournal(found, make)
}

function changeOf(before: RunHeader, now: RunHeader): string | null {
  if (before.input_sha256 !== now.input_sha256) return 'the input has changed'
  if (before.reading !== now.reading) return '--model or --drop has changed'
  if (before.url !== now.url) return `the server has changed (it was ${before.url})`
  if (before.account !== now.account) return `the account has changed (it was ${before.account})`
  return null
}
