/** Decides whether a run is new, resumes an earlier run, or conflicts with one. */
import { randomBytes } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { CommandError } from '../command-error.ts'
import { Journal, type RunHeader } from './journal.ts'

/** The journal of a resumed run, or of a new run, whose file is created by `start`. */
export class OpenedJournal {
  #journal: Journal | null
  readonly #create: () => Journal

  constructor(journal: Journal | null, create: () => Journal) {
    this.#journal = journal
    this.#create = create
  }

  wasSent(index: number): boolean {
    const journal = this.#journal
    if (journal === null) return false
    return journal.jobIds.has(index) || journal.hasEnded(index) || journal.hasUnknownOutcome(index)
  }

  start(): Journal {
    this.#journal ??= this.#create()
    return this.#journal
  }

  close(): void {
    this.#journal?.close()
  }
}

/** Throws rather than overwrite an earlier run or its results, unless `restart` is set. */
export function openJournal(path: string, out: string, header: RunHeader, restart: boolean): OpenedJournal {
  const create = () => Journal.create(path, randomBytes(16).toString('hex'), header)
  const found = restart ? null : Journal.open(path)
  if (found === null) {
    if (!restart && out !== '-' && existsSync(out) && statSync(out).isFile()) {
      throw new CommandError(
        `${out} already exists. Pass another --out, or pass --restart to send all jobs and replace the file.`,
      )
    }
    return new OpenedJournal(null, create)
  }
  const change = changeOf(found.header, header)
  if (change !== null) {
    found.close()
    throw new CommandError(
      `${path} belongs to an unfinished run, and ${change} since then. Restore it to resume, or pass --restart to start over. If you start over, you pay for all jobs again.`,
    )
  }
  return new OpenedJournal(found, create)
}

function changeOf(before: RunHeader, now: RunHeader): string | null {
  if (before.input_sha256 !== now.input_sha256) return 'the input has changed'
  if (before.reading !== now.reading) return '--model or --drop has changed'
  if (before.url !== now.url) return `the server has changed (it was ${before.url})`
  if (before.account !== now.account) return `the account has changed (it was ${before.account})`
  return null
}
