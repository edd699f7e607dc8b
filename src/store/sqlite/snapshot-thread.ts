/**
 * The thread of one snapshot: SQLite writes the whole of it in one statement, and the command must be able to show how far
 * it is, and to clean up when it is interrupted.
 */
import { dirname } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import type { DatabaseSummary } from '../backup.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { faultOf, holdingsOf, openToLook } from './database-summary.ts'

export type SnapshotResult = { readonly holdings: DatabaseSummary } | { readonly problem: string }

interface Paths {
  readonly from: string
  /** An empty file. */
  readonly to: string
}

/** SQLite's primary result codes. */
const BUSY = 5
const LOCKED = 6
const CORRUPT = 11
const FULL = 13
const NOT_A_DATABASE = 26

function write({ from, to }: Paths): DatabaseSummary {
  const source = toldOf(from, () => openToLook(from))
  try {
    toldOf(from, () => source.prepare('vacuum into ?').run(to), dirname(to))
  } finally {
    source.close()
  }
  return toldOf(from, () => check(from, to))
}

/** What was written is read back, all of it: a backup that is found damaged on the bad day is none. */
function check(from: string, to: string): DatabaseSummary {
  const copy = openToLook(to)
  try {
    const fault = faultOf(copy)
    if (fault !== null) throw new DatabaseProblem(`${from} is damaged: ${fault}.`)
    return holdingsOf(copy, to)
  } finally {
    copy.close()
  }
}

/** @param folder where it is written to, if it is */
function toldOf<T>(from: string, work: () => T, folder?: string): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof Error && 'errcode' in error)) throw error
    throw new DatabaseProblem(messageOf(error.message, Number(error.errcode) & 0xff, from, folder))
  }
}

function messageOf(says: string, code: number, from: string, folder: string | undefined): string {
  if (code === NOT_A_DATABASE) return `${from} is no database of Parley's: ${says}.`
  if (code === CORRUPT) return `${from} is damaged: ${says}.`
  if (code === BUSY || code === LOCKED) return `Another program holds ${from}: ${says}. End it first.`
  if (code === FULL) return `There is no room in ${folder ?? dirname(from)} for a copy of ${from}.`
  if (folder === undefined) return `${from} cannot be read: ${says}.`
  return `${from} cannot be copied into ${folder}: ${says}. Check the disk, its room, and limits on the size of files.`
}

function tell(result: SnapshotResult): void {
  parentPort?.postMessage(result)
}

if (parentPort) {
  try {
    tell({ holdings: write(workerData as Paths) })
  } catch (error) {
    if (!(error instanceof DatabaseProblem)) throw error
    tell({ problem: error.message })
  }
}
