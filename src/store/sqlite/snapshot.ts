/**
 * Takes a snapshot of a database file, even while a server uses it: one complete and checked file with everything committed
 * before it began. It has a temporary name until it is put in place.
 */
import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, openSync, renameSync, rmSync, statSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { moduleURL } from '../../module-url.ts'
import type { DatabaseSummary, WriteOptions } from '../backup.ts'
import { DatabaseProblem } from '../database-problem.ts'
import { syncFolderOf } from '../sync-folder.ts'
import type { SnapshotResult } from './snapshot-thread.ts'

const PROGRESS_MS = 500

export interface Snapshot {
  readonly summary: DatabaseSummary
  /** The temporary path, next to the final one. */
  readonly file: string
  /** Renames the file durably and atomically. */
  putInPlace(): void
  remove(): void
}

/** Rejects with a `DatabaseProblem` for problems that the operator must fix, and then leaves no file behind. */
export async function takeSnapshot(
  from: string,
  place: string,
  { signal, onProgress }: WriteOptions,
): Promise<Snapshot> {
  const file = `${place}.${randomBytes(4).toString('hex')}.partial`
  const remove = () => {
    for (const path of [file, `${file}-journal`]) rmSync(path, { force: true })
  }
  makePrivate(file)
  signal.addEventListener('abort', remove)
  const progress = setInterval(() => onProgress(sizeOf(file)), PROGRESS_MS)
  try {
    const result = await runInThread(from, file)
    signal.throwIfAborted()
    if ('problem' in result) throw new DatabaseProblem(result.problem)
    sync(file)
    const putInPlace = () => {
      renameSync(file, place)
      syncFolderOf(place)
    }
    return { summary: result.summary, file, putInPlace, remove }
  } catch (error) {
    remove()
    throw error
  } finally {
    clearInterval(progress)
  }
}

/** Creates the empty file, private because it will hold conversations and signing secrets. */
function makePrivate(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    throw new DatabaseProblem(`${file} cannot be created: ${(error as Error).message}.`, { cause: error })
  }
}

function runInThread(from: string, to: string): Promise<SnapshotResult> {
  const thread = new Worker(moduleURL('./snapshot-thread.ts', import.meta.url), { workerData: { from, to } })
  return new Promise((resolve, reject) => {
    thread.once('message', resolve)
    thread.once('error', reject)
    thread.once('exit', () => reject(new Error('the thread of the snapshot exited unexpectedly')))
  })
}

function sync(file: string): void {
  const fd = openSync(file, 'r+')
  fsyncSync(fd)
  closeSync(fd)
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0
}
