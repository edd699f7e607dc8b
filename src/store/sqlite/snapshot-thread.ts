/**
 * The thread of one snapshot: SQLite writes all of it in one statement, and meanwhile the command must be able to show
 * progress, and to clean up when it is interrupted.
 */
import { dirname } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import type { DatabaseSummary } from '../backup.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { faultOf, openReadOnly, summaryOf } from './database-summary.ts'

export type SnapshotResult = { readonly summary: DatabaseSummary } | { readonly problem: string }

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
  const source = asProblem(from, () => openReadOnly(from))
  try {
    asProblem(from, () => source.prepare('vacuum into ?').run(to), dirname(to))
  } finally {
    source.close()
  }
  return asProblem(from, () => check(from, to))
}

/** All that was written is read again: a backup that turns out to be damaged when it is needed is useless. */
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

/** @param folder the one that is written to, if the work writes */
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

function post(result: SnapshotResult): void {
  parentPort?.postMessage(result)
}

if (parentPort) {
  try {
    post({ summary: write(workerData as Paths) })
  } catch (error) {
    if (!(error instanceof DatabaseProblem)) throw error
    post({ problem: error.message })
  }
}
