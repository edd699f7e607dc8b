/** `parley job`: shows the current state of a job, or waits until it has finished. */

import { TimeoutError } from '../../../client/src/index.ts'
import { CommandError } from '../command-error.ts'
import { connect } from './connection.ts'
import { EXIT } from './exit-code.ts'
import { interruptible } from './interruptible.ts'
import { printJob } from './print-job.ts'
import type { ServerOptions } from './server-options.ts'

export interface JobOptions extends ServerOptions {
  readonly wait?: true
  readonly timeout?: number
  readonly json?: true
}

/** Resolves with the exit code. */
export async function showJob(
  jobId: string,
  { wait, timeout, json, ...server }: JobOptions,
): Promise<number> {
  if (timeout !== undefined && !wait) throw new CommandError('--timeout can only be used with --wait.')
  const parley = connect(server)
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
