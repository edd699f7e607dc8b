/**
 * `parley batch` sends thousands of jobs from a file of JSON lines, and writes their results in the same order. After an
 * interruption, the same command resumes the run.
 */

import { randomBytes } from 'node:crypto'
import { existsSync, rmSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { Me, Parley } from '../../../client/src/index.ts'
import { clientError, connect, interruptible, serverUrl } from '../call/connection.ts'
import { printJson } from '../call/job.ts'
import { CommandError, counted, printable, printError, readInput } from '../input-output.ts'
import { EXIT, type ResultFormat, type ServerOptions } from '../options.ts'
import { type Input, readJobs, sha256 } from './input.ts'
import { Journal, type RowStatus, type RunHeader } from './journal.ts'
import { startReport } from './report.ts'
import { isDevice, rowsOf, writeResults } from './results.ts'
import { BatchRun } from './run.ts'

const MAX_PRINTED = 20

export interface BatchOptions extends ServerOptions {
  readonly out?: string
  readonly format: ResultFormat
  readonly model?: ReadonlyMap<string, string>
  readonly drop?: readonly string[]
  readonly concurrency: number
  readonly skipInvalid?: true
  readonly restart?: true
  readonly sendAgain?: true
  readonly json?: true
}

interface Run {
  readonly parley: Parley
  readonly me: Me
  readonly journal: Journal
  readonly input: Input
  readonly out: string
  readonly options: BatchOptions
}

export async function batch(file: string, options: BatchOptions): Promise<number> {
  const parley = connect(options)
  const out = options.out ?? resultsOf(file)
  // No file can be next to a device such as /dev/null, so the journal and the lock are then next to the input.
  const base = out === '-' || (file !== '-' && isDevice(out)) ? resultsOf(file) : out
  const bytes = await readInput(file)
  const unlock = lockRun(base)
  try {
    const me = await withClientErrors(parley.me())
    const header: RunHeader = {
      url: serverUrl(options.url).replace(/\/+$/, ''),
      account: me.account,
      input_sha256: sha256(bytes),
      reading: JSON.stringify([[...(options.model ?? [])], options.drop ?? []]),
    }
    const journal = openJournal(`${base}.journal`, out, header, options.restart === true)
    try {
      const input = await readInputOf(file, bytes, me, journal, options)
      return await runToEnd({ parley, me, journal: journal.start(), input, out, options })
    } finally {
      journal.close()
    }
  } finally {
    unlock()
  }
}

function resultsOf(file: string): string {
  if (file === '-')
    throw new CommandError('Standard input has no file name for the results. Pass --out FILE.')
  return `${file}.results.jsonl`
}

async function readInputOf(
  file: string,
  bytes: Buffer,
  me: Me,
  journal: OpenedJournal,
  { model = new Map(), drop = [], format, skipInvalid }: BatchOptions,
): Promise<Input> {
  const input = await readJobs(bytes, {
    me,
    models: model,
    drop,
    needsCustomId: format === 'openai',
    wasSent: (index) => journal.wasSent(index),
  })
  const name = file === '-' ? 'standard input' : file
  if (input.lines.length === 0) throw new CommandError(`${name} contains no jobs.`)
  const { invalid } = input
  if (invalid.length === 0) return input
  for (const { number, problem } of invalid.slice(0, MAX_PRINTED))
    printError(`${name}:${number}: ${printable(problem)}`)
  if (invalid.length > MAX_PRINTED) printError(`… and ${invalid.length - MAX_PRINTED} more`)
  if (skipInvalid) return input
  const are = invalid.length === 1 ? 'is' : 'are'
  throw new CommandError(
    `${invalid.length} of ${input.lines.length} lines ${are} invalid, so nothing was sent. Correct them, or pass --skip-invalid to send the others.`,
  )
}

async function runToEnd({ parley, me, journal, input, out, options }: Run): Promise<number> {
  const { lines, jobs, invalid } = input
  const progress = () => ({
    ended: journal.ended + invalid.length,
    failed: journal.ended - journal.counts.completed + invalid.length,
  })
  if (journal.hasStarted) {
    printError(`Resuming the previous run: ${journal.ended} of ${lines.length} lines have a result.`)
  }
  const report = startReport(lines.length, progress())
  const run = new BatchRun({
    parley,
    me,
    journal,
    jobs,
    concurrency: options.concurrency,
    skipInvalid: options.skipInvalid === true,
    sendAgain: options.sendAgain === true,
    onChange: () => report.show(progress()),
  })
  // With --restart, the command would start over instead of resuming.
  const again = `the same command again${options.restart ? ' without --restart' : ''}`
  const howToResume = () =>
    `${progress().ended} of ${lines.length} lines have a result. Run ${again} to resume; you pay for each job only once.`
  try {
    await interruptible(
      (signal) => run.run(signal),
      () => `Stopped. ${howToResume()}`,
    )
  } catch (error) {
    report.end()
    if (!(error instanceof CommandError) || error.message.startsWith('Stopped.')) throw error
    throw new CommandError(`${error.message}\n${howToResume()}`, error.exitCode)
  }
  report.end()
  await writeResults(out, rowsOf(input, journal, options.format), again)
  const counts = { ...journal.counts, invalid: journal.counts.invalid + invalid.length }
  journal.remove()
  return conclude(counts, lines.length, out, options)
}

function conclude(
  counts: Readonly<Record<RowStatus, number>>,
  lines: number,
  out: string,
  { json }: BatchOptions,
): number {
  const shown = Object.entries(counts).filter(([status, count]) => status === 'completed' || count > 0)
  const summary = shown.map(([status, count]) => `${count} ${status}`).join(', ')
  printError(`${counted(lines, 'line')}: ${summary}.${out === '-' ? '' : ` Results: ${out}`}`)
  if (json) printJson({ lines, ...counts, out: out === '-' ? null : out })
  return counts.completed === lines ? EXIT.completed : EXIT.failed
}

async function withClientErrors<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw clientError(error)
  }
}

/** Holds the journal of a run. For a new run, only `start` creates the file, so that invalid input leaves no file behind. */
class OpenedJournal {
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

/** Without a journal, throws instead of overwriting existing results, unless `restart` is set. */
function openJournal(path: string, out: string, header: RunHeader, restart: boolean): OpenedJournal {
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

/**
 * Locks the run against a second process, and returns a function that unlocks it. Node has no `flock`. An exclusive SQLite
 * transaction replaces it, because the operating system ends the transaction even if the process is killed.
 */
function lockRun(path: string): () => void {
  const file = `${path}.lock`
  let db: DatabaseSync
  try {
    db = new DatabaseSync(file, { timeout: 0 })
  } catch (error) {
    throw new CommandError(
      `Cannot create ${file}: ${(error as Error).message}. Check that the folder of --out exists and is writable.`,
    )
  }
  try {
    db.exec('pragma journal_mode = delete; begin exclusive')
  } catch (error) {
    db.close()
    if (!/locked/.test((error as Error).message)) throw error
    throw new CommandError(
      'Another parley batch process is working on this run. Wait until it has finished, or stop it.',
    )
  }
  return () => {
    rmSync(file, { force: true })
    db.close()
  }
}
