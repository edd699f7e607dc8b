/** `parley job`: shows the current state of a job, waits until it has finished, cancels or deletes it. */

import { ConflictError, type Parley, TimeoutError } from '../../../client/src/index.ts'
import { CommandError } from '../command-error.ts'
import { printError } from '../output.ts'
import { connect } from './connection.ts'
import { EXIT } from './exit-code.ts'
import { interruptible } from './interruptible.ts'
import { printJob, printJson } from './print-job.ts'
import type { ServerOptions } from './server-options.ts'

export interface JobOptions extends ServerOptions {
  readonly wait?: true
  readonly timeout?: number
  readonly cancel?: true
  readonly delete?: true
  readonly dropCallback?: true
  readonly json?: true
}

/** Resolves with the exit code. */
export async function callJob(jobId: string, options: JobOptions): Promise<number> {
  const { wait, timeout, cancel, delete: deletes, dropCallback } = options
  if (timeout !== undefined && !wait) throw new CommandError('--timeout can only be used with --wait.')
  if (dropCallback && !deletes) throw new CommandError('--drop-callback can only be used with --delete.')
  const parley = connect(options)
  if (cancel) return cancelJob(parley, jobId, options)
  return deletes ? deleteJob(parley, jobId, options) : showJob(parley, jobId, options)
}

async function showJob(parley: Parley, jobId: string, { wait, timeout, json }: JobOptions): Promise<number> {
  const found = await interruptible(
    async (signal) => {
      if (!wait) return parley.messages.retrieve(jobId, { signal })
      try {
        return await parley.messages.wait(jobId, { signal, timeout })
      } catch (error) {
        // Only the timeout of the wait has the job's ID; that of a single request does not.
        if (!(error instanceof TimeoutError && error.jobId === jobId)) throw error
        throw new CommandError(
          `Job ${jobId} did not finish within ${timeout} s. It continues on the server.`,
          EXIT.open,
        )
      }
    },
    () => `Interrupted. The job continues on the server. To wait for it again: parley job ${jobId} --wait`,
  )
  return printJob(found, json === true)
}

async function cancelJob(parley: Parley, jobId: string, { json }: JobOptions): Promise<number> {
  const job = await interruptible(
    (signal) => withoutConflict(() => parley.messages.cancel(jobId, { signal })),
    () => 'Interrupted. The server may have cancelled the job already.',
  )
  if (json) printJson(job)
  else printError(`Job ${job.job_id} is cancelled. Its call to the model ends within a second.`)
  return EXIT.completed
}

async function deleteJob(parley: Parley, jobId: string, { dropCallback, json }: JobOptions): Promise<number> {
  const deleted = await interruptible(
    (signal) => withoutConflict(() => parley.messages.delete(jobId, { signal, dropCallback })),
    () => 'Interrupted. The server may have deleted the job already.',
  )
  if (json) printJson(deleted)
  else printError(`Job ${deleted.job_id} is deleted.`)
  return EXIT.completed
}

/** A job in another state than the command needs is neither an error of the key nor one of the server. */
async function withoutConflict<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof ConflictError) throw new CommandError(error.message, EXIT.other)
    throw error
  }
}
