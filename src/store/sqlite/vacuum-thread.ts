/**
 * Runs one snapshot or scrub on its own thread, because SQLite copies the whole file in one statement. Meanwhile, the storage
 * thread must answer reads, and a command must show progress and clean up when it is interrupted.
 */
import { dirname } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { DatabaseProblem } from '../database-problem.ts'
import { type DatabaseSummary, faultOf, openReadOnly, summaryOf } from './database-summary.ts'
import { deletionOperations } from './delete.ts'
import { OpenFile } from './open-file.ts'
import { openFile } from './opening.ts'

export type SnapshotResult = { readonly summary: DatabaseSummary } | { readonly problem: string }

export type VacuumTask = Snapshot | Scrub

interface Snapshot {
  readonly from: string
  /** The snapshot is written to this file, which must be empty. */
  readonly to: string
}

interface Scrub {
  readonly path: string
}

/** A scrub waits longer than other writes do, because a busy server leaves little time between its writes. */
const SCRUB_TIMEOUT_MS = 30_000

/** SQLite's primary result codes. */
const BUSY = 5
const LOCKED = 6
const CORRUPT = 11
const FULL = 13
const NOT_A_DATABASE = 26

function snapshot({ from, to }: Snapshot): DatabaseSummary {
  const source = asProblem(from, () => openReadOnly(from))
  try {
    asProblem(from, () => source.prepare('vacuum into ?').run(to), dirname(to))
  } finally {
    source.close()
  }
  return asProblem(from, () => check(from, to))
}

/** Reads the whole copy, so that damage is found now instead of when the backup is needed. */
function check(from: string, to: string): DatabaseSummary {
  const copy = openReadOnly(to)
  try {
    const fault = faultOf(copy)
    if (fault !== null) throw new DatabaseProblem(`${from} is damaged: ${fault}.`)
    return summaryOf(copy, to)
  } finally {
    copy.close()
  }
}

/** @param folder the folder to which the work writes; absent if the work only reads */
function asProblem<T>(from: string, work: () => T, folder?: string): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof Error && 'errcode' in error)) throw error
    throw new DatabaseProblem(messageOf(error.message, Number(error.errcode) & 0xff, from, folder))
  }
}

function messageOf(reason: string, code: number, from: string, folder: string | undefined): string {
  if (code === NOT_A_DATABASE) return `${from} is not a database of Parley: ${reason}.`
  if (code === CORRUPT) return `${from} is damaged: ${reason}.`
  if (code === BUSY || code === LOCKED) return `Another program has locked ${from}: ${reason}. Stop it first.`
  if (code === FULL) return `There is not enough space in ${folder ?? dirname(from)} for a copy of ${from}.`
  if (folder === undefined) return `${from} cannot be read: ${reason}.`
  return `${from} cannot be copied into ${folder}: ${reason}. Check the disk, its free space, and limits on file sizes.`
}

function scrub({ path }: Scrub): void {
  const db = openFile(path)
  try {
    db.exec(`pragma busy_timeout = ${SCRUB_TIMEOUT_MS}`)
    deletionOperations.scrub.run(new OpenFile(db))
  } finally {
    db.close()
  }
}

function resultOf(task: Snapshot): SnapshotResult {
  try {
    return { summary: snapshot(task) }
  } catch (error) {
    if (error instanceof DatabaseProblem) return { problem: error.message }
    throw error
  }
}

if (parentPort) {
  const task: VacuumTask = workerData
  if ('path' in task) scrub(task)
  else parentPort.postMessage(resultOf(task))
}
